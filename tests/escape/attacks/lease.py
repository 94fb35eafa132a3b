# Takes a lease on a file that is read-only inside. A non-blocking open of the file outside would
# fail.
import fcntl

file = os.open(sys.argv[1], os.O_RDONLY)
attempt("lease", lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK))
done()
