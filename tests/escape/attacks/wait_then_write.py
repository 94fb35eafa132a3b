# Creates a file to show that it has started, waits for another file, and then writes to the paths.
started, awaited, *paths = sys.argv[1:]
put(started, "")
wait_for(awaited)
for path in paths:
    attempt("write", lambda: put(path, "planted"))
done()
