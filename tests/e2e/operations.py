# Tries each operation on a folder and its entries, and prints the kernel's answer: `.` for success,
# or the name of the error. Each operation has a file of its own, which is named after it.
import errno, json, mmap, os, sys

folder, landing = sys.argv[1:]


def at(name):
    return os.path.join(folder, name)


def outside(name):
    return os.path.join(landing, name)


def change(path, flags):
    descriptor = os.open(path, flags)
    try:
        os.write(descriptor, b"changed inside")
    finally:
        os.close(descriptor)


def change_mapped(path):
    descriptor = os.open(path, os.O_RDWR)
    try:
        with mmap.mmap(descriptor, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
            mapped[:7] = b"changed"
    finally:
        os.close(descriptor)


def read(path):
    with open(path, "rb") as file:
        assert file.read() == b"original", "these are not the host's bytes"


def there_and_back(one, other):
    os.rename(one, other)
    os.rename(other, one)


operations = {
    "list": lambda: os.listdir(folder),
    "stat": lambda: os.stat(at("stat")),
    "read": lambda: read(at("read")),
    "write": lambda: change(at("write"), os.O_WRONLY),
    "append": lambda: change(at("append"), os.O_WRONLY | os.O_APPEND),
    "truncate": lambda: os.truncate(at("truncate"), 0),
    "open-truncating": lambda: change(at("open-truncating"), os.O_WRONLY | os.O_TRUNC),
    "mmap": lambda: change_mapped(at("mmap")),
    "create": lambda: change(at("create"), os.O_WRONLY | os.O_CREAT | os.O_EXCL),
    "delete": lambda: os.unlink(at("delete")),
    "rename": lambda: os.rename(at("rename"), at("renamed")),
    "rename-over": lambda: os.rename(at("rename-over-from"), at("rename-over")),
    "move-out": lambda: os.rename(at("move-out"), outside("move-out")),
    "move-in": lambda: os.rename(outside("move-in"), at("move-in")),
    "move-over": lambda: os.rename(outside("move-over"), at("move-over")),
    "link": lambda: os.link(at("link"), at("linked")),
    "link-out": lambda: os.link(at("link-out"), outside("link-out")),
    "symlink": lambda: os.symlink("nowhere", at("symlink")),
    "mkdir": lambda: os.mkdir(at("mkdir")),
    "rmdir": lambda: os.rmdir(at("rmdir")),
    "chmod": lambda: os.chmod(at("chmod"), 0o600),
    "utimes": lambda: os.utime(at("utimes"), (1, 1)),
    "setxattr": lambda: os.setxattr(at("setxattr"), "user.inside", b"1"),
    "chmod-folder": lambda: os.chmod(folder, 0o777),
    "utimes-folder": lambda: os.utime(folder, (1, 1)),
    "setxattr-folder": lambda: os.setxattr(folder, "user.inside", b"1"),
    "rename-folder": lambda: there_and_back(folder, folder + "-moved"),
}

answers = {}
for name, operation in operations.items():
    try:
        operation()
        answers[name] = "."
    except OSError as error:
        answers[name] = errno.errorcode[error.errno]
print(json.dumps(answers))
