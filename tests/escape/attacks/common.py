# Functions that all attacks use. This text is inserted before each attack.
import ctypes, os, socket, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
RENAME_EXCHANGE = 2
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 1, 32, 4096, 16384, 1 << 18, 2


def say(*words):
    print(*words, flush=True)


def done():
    say("done")


def attempt(name, action):
    """Calls `action`, and prints `ok` or the number of its error."""
    try:
        result = action()
        say(name, "ok")
        return result
    except OSError as error:
        say(name, error.errno)


def check(result):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def exchange(one, other):
    check(libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE))


def mount(source, target, kind, flags):
    encoded = lambda text: None if text is None else os.fsencode(text)
    check(libc.mount(encoded(source), encoded(target), encoded(kind), ctypes.c_ulong(flags), None))


def umount(target):
    check(libc.umount2(os.fsencode(target), MNT_DETACH))


def unshare(flags):
    check(libc.unshare(flags))


def put(path, text, mode=0o755, at=None):
    """Writes a file with its parents, relative to an open directory if one is given."""
    parents = os.path.dirname(path).split("/")
    for depth in range(1, len(parents) + 1):
        folder = "/".join(parents[:depth])
        if folder:
            try:
                os.mkdir(folder, dir_fd=at)
            except FileExistsError:
                pass
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode, dir_fd=at)
    os.write(file, text.encode())
    os.fchmod(file, mode)
    os.close(file)


def read(path, at=None):
    """Prints the content of a file, or the number of the error."""
    try:
        file = os.open(path, os.O_RDONLY, dir_fd=at)
    except OSError as error:
        say("read", path, error.errno)
        return
    try:
        say("read", path, repr(os.read(file, 65536)))
    except OSError as error:
        say("read", path, error.errno)
    os.close(file)


def wait_for(path):
    while not os.path.lexists(path):
        time.sleep(0.002)


