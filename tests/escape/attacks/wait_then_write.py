# Notes that it has started, waits for a file, and then writes to a path, if one is given.
started, awaited, *paths = sys.argv[1:]
put(started, "")
wait_for(awaited)
for path in paths:
    attempt("write", lambda: put(path, "planted"))
done()
