# The caller has opened a file for reading as standard input. This opens it again for writing, and
# tries to change it through the descriptor.
for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND):
    for name in ("/proc/self/fd/0", "/dev/stdin", "/dev/fd/0", "/proc/thread-self/fd/0"):
        file = attempt("open", lambda: os.open(name, flags))
        if file is not None:
            attempt("write", lambda: os.write(file, sys.argv[1].encode()))
            os.close(file)
attempt("chmod", lambda: os.fchmod(0, 0o4777))
attempt("times", lambda: os.utime(0, (1, 1)))
attempt("attribute", lambda: os.setxattr(0, "user.planted", b"x"))
attempt("truncate", lambda: os.ftruncate(0, 0))
attempt("link", lambda: os.link("/proc/self/fd/0", "another-name", follow_symlinks=True))
attempt("folder", lambda: os.open("..", os.O_RDONLY, dir_fd=0))
attempt("mount", lambda: mount(None, "/proc/self/fd/0", None, MS_REMOUNT | MS_BIND))
done()
