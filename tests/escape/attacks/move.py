# Moves a folder above a protected path away and creates it again, with another file at the
# protected path. HOW is rename, exchange, or rmdir.
how, ancestor, protected = sys.argv[1:4]
aside = ancestor + ".aside"
if how == "exchange":
    attempt("put", lambda: put(protected.replace(ancestor, aside, 1), "planted"))
    attempt("exchange", lambda: exchange(ancestor, aside))
else:
    attempt("rename", lambda: os.rename(ancestor, aside))
    folder = os.path.dirname(ancestor)
    while how == "rmdir" and folder:
        attempt("rmdir", lambda: os.rmdir(folder))
        folder = os.path.dirname(folder)
    attempt("put", lambda: put(protected, "planted"))
done()
