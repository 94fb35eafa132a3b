# Reports the access that the kernel allows at each path. Standard input has the paths, each ended
# by a NUL byte. Prints a JSON object for each: its kind, and `ok` or the error number of reading
# and of writing.
import json, os, stat, sys


def attempt(operation):
    try:
        operation()
        return "ok"
    except OSError as e:
        return e.errno


def read(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.read(descriptor, 1)
    finally:
        os.close(descriptor)


def create_in(directory):
    name = os.path.join(directory, b".agent-sandbox-probe-%d" % os.getpid())
    os.mkdir(name)
    os.rmdir(name)


def examine(path):
    try:
        mode = os.lstat(path).st_mode
    except OSError as e:
        return {"kind": "none", "error": e.errno}
    if stat.S_ISDIR(mode):
        return {
            "kind": "directory",
            "read": attempt(lambda: os.listdir(path)),
            "write": attempt(lambda: create_in(path)),
        }
    kind = "symlink" if stat.S_ISLNK(mode) else "device" if stat.S_ISCHR(mode) else "file"
    append = lambda: os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    return {"kind": kind, "read": attempt(lambda: read(path)), "write": attempt(append)}


for path in sys.stdin.buffer.read().split(b"\0"):
    if path:
        print(json.dumps(examine(path)))
