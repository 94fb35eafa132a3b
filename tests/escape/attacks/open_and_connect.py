# Changes the mode of a closed folder of its own user, and connects to a service in it.
folder, name = sys.argv[1:]
attempt("chmod " + folder, lambda: os.chmod(folder, 0o700))
connection = socket.socket(socket.AF_UNIX)
attempt("connect " + name, lambda: connection.connect(name))
done()
