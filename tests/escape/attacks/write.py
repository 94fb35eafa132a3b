# Tries to change each path in all ways in which a file can be changed or replaced.
for path in sys.argv[1:]:
    attempt("put", lambda: put(path, "planted"))
    attempt("chmod", lambda: os.chmod(path, 0o777))
    attempt("put", lambda: put(path, "planted"))
    attempt("put aside", lambda: put(path + ".aside", "planted"))
    attempt("rename over", lambda: os.rename(path + ".aside", path))
    attempt("put aside", lambda: put(path + ".aside", "planted"))
    attempt("exchange", lambda: exchange(path + ".aside", path))
    attempt("unlink", lambda: os.unlink(path))
    attempt("put", lambda: put(path, "planted"))
done()
