# Connects to services of the host. `@name` is an abstract socket.
for name in sys.argv[1:]:
    connection = socket.socket(socket.AF_UNIX)
    attempt("connect " + name, lambda: connection.connect("\0" + name[1:] if name[0] == "@" else name))
    # A link has another name, which no check of names knows.
    if name[0] == "/":
        attempt("symlink", lambda: os.symlink(name, "link"))
        connection = socket.socket(socket.AF_UNIX)
        attempt("connect " + name, lambda: connection.connect("link"))
        attempt("unlink", lambda: os.unlink("link"))
done()
