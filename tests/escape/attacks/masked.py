# Writes to masked paths. If such a write succeeded, the data would be lost.
for path in sys.argv[1:]:
    folder = os.path.dirname(path)
    attempt("chmod", lambda: os.chmod(folder, 0o700))
    attempt("write", lambda: put(path, "data of the user"))
done()
