# Tries to write commands to FIFOs that services of the host read and that are read-only inside.
def write(path, flags):
    file = os.open(path, flags | os.O_NONBLOCK)
    os.write(file, b"commands\n")
    os.close(file)


for name in sys.argv[1:]:
    attempt("write " + name, lambda: write(name, os.O_WRONLY))
    attempt("read and write " + name, lambda: write(name, os.O_RDWR))
    attempt("truncate " + name, lambda: write(name, os.O_WRONLY | os.O_TRUNC))
    attempt("append by /proc " + name, lambda: write("/proc/self/root" + name, os.O_WRONLY | os.O_APPEND))
    # Opens a read-only descriptor again for writing.
    reading = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    attempt("again " + name, lambda: write("/proc/self/fd/%d" % reading, os.O_WRONLY))
    attempt("hard link", lambda: os.link(name, "link"))
    attempt("by link " + name, lambda: write("link", os.O_WRONLY))
done()
