# Takes a lease on a file that can only be read here: whoever opens it outside, and does not wait,
# would fail.
import fcntl

file = os.open(sys.argv[1], os.O_RDONLY)
attempt("lease", lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK))
done()
