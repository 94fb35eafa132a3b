# Writes into what is masked. A write that succeeds and vanishes is data lost.
for path in sys.argv[1:]:
    folder = os.path.dirname(path)
    attempt("chmod", lambda: os.chmod(folder, 0o700))
    attempt("write", lambda: put(path, "data of the user"))
done()
