# Makes a long random sequence of file operations, often on protected paths and their parents. Then
# prints all files that it can read. Arguments: SEED COUNT PROTECTED…
import random

seed, count, *protected = sys.argv[1:]
dice = random.Random(int(seed))
project = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
held = [project]


def interesting():
    path = dice.choice(protected).split("/")
    return "/".join(path[: dice.randint(1, len(path))])


def existing():
    found = [os.path.relpath(os.path.join(folder, name), ".") for folder, folders, files in os.walk(".") for name in folders + files]
    return dice.choice(found) if found else "none"


def some():
    return dice.choice([interesting, interesting, existing, lambda: dice.choice(["n1", "n2", "n1/n3", "a/n4"])])()


def swap(one, other):
    check(libc.renameat2(project, os.fsencode(one), project, os.fsencode(other), RENAME_EXCHANGE))


def climb(path):
    return "../" * dice.randint(0, 3) + path


def rewrite(path, flags):
    file = os.open(path, flags, 0o644, dir_fd=project)
    os.write(file, b"planted")
    os.close(file)


OPERATIONS = [
    lambda: put(some(), "planted", 0o644, project),
    lambda: rewrite(some(), os.O_WRONLY),
    lambda: rewrite(some(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    lambda: os.truncate(some(), 0),
    lambda: os.rename(some(), some(), src_dir_fd=project, dst_dir_fd=project),
    lambda: os.rename(some(), some(), src_dir_fd=project, dst_dir_fd=project),
    lambda: os.rename(interesting(), "moved%d" % dice.randint(0, 3), src_dir_fd=project, dst_dir_fd=project),
    lambda: swap(some(), some()),
    lambda: swap(interesting(), existing()),
    lambda: os.link(some(), some(), src_dir_fd=project, dst_dir_fd=project),
    lambda: os.symlink(climb(some()), some(), dir_fd=project),
    lambda: os.unlink(some(), dir_fd=project),
    lambda: os.rmdir(some(), dir_fd=project),
    lambda: os.mkdir(some(), dir_fd=project),
    lambda: os.chmod(some(), dice.choice([0o600, 0o644, 0o700, 0o755]), dir_fd=project),
    lambda: held.append(os.open(some(), os.O_RDONLY | os.O_DIRECTORY, dir_fd=project)),
    lambda: umount(some()),
    lambda: mount(some(), some(), None, MS_BIND),
    lambda: mount(None, some(), None, MS_REMOUNT | MS_BIND),
]


def operate(times):
    succeeded = 0
    for _ in range(times):
        try:
            dice.choice(OPERATIONS)()
            succeeded += 1
        except OSError:
            pass
    return succeeded


def show(name, at, folder):
    try:
        file = os.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd=at)
        say("shows", os.path.join(folder, name), os.read(file, 4096))
        os.close(file)
    except OSError:
        pass


def show_all():
    for top in held:
        try:
            for folder, _, files, at in os.fwalk(".", dir_fd=top):
                for name in files:
                    show(name, at, folder)
        except OSError:
            # The folder `top` itself can no longer be opened.
            pass


def in_a_namespace():
    # Detaches the mounts that keep names in place, as namespace.py does.
    unshare(CLONE_NEWUSER | CLONE_NEWNS)
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    if dice.random() < 0.5:
        mount("none", "/dev/shm", "tmpfs", 0)
        os.chdir("/dev/shm")
        check(libc.pivot_root(b".", b"."))
        umount(".")


succeeded = operate(int(count))
show_all()
if dice.random() < 0.3 and (child := os.fork()) == 0:
    try:
        in_a_namespace()
        operate(int(count))
        show_all()
    finally:
        os._exit(0)
elif "child" in globals():
    os.waitpid(child, 0)
show_all()
say("succeeded", succeeded)
done()
