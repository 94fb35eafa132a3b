# Tries to read the credentials that a copy leaves out: at the path itself, at other paths to the
# file, through links, and after moving the file away.
for number, path in enumerate(sys.argv[1:]):
    read(path)
    for root in ("/proc/self/root", "/proc/1/root", "/proc/self/cwd/../../.."):
        read(root + path)
    name = "linked-%d" % number
    attempt("link", lambda: os.link(path, name))
    attempt("symlink", lambda: os.symlink(path, name))
    read(name)
    attempt("rename", lambda: os.rename(path, name + "-moved"))
    read(name + "-moved")
    attempt("umount", lambda: umount(path))
    attempt("unlink", lambda: os.unlink(path))
    read(path)
done()
