"""Prints the first event that inotify reports for the paths in the arguments.

`watch.py host PATH…` watches and prints `ready`. `watch.py inside SENTINEL PATH…` prints `ready`,
waits for the end of its input, watches, writes to /dev/null, and creates the sentinel.
"""

import ctypes
import errno
import os
import signal
import struct
import sys

ALL_EVENTS = 0xFFF
CREATE = 0x100

# If no event comes, the alarm ends the test.
signal.alarm(120)
libc = ctypes.CDLL(None, use_errno=True)


def watch(paths):
    descriptor = libc.inotify_init1(os.O_CLOEXEC)
    for path in paths:
        if libc.inotify_add_watch(descriptor, os.fsencode(path), ALL_EVENTS) < 0:
            print(f"cannot watch {path}: {errno.errorcode[ctypes.get_errno()]}")
    return descriptor


def first_event(descriptor):
    data = os.read(descriptor, 4096)
    _, mask, _, length = struct.unpack_from("iIII", data)
    name = data[16 : 16 + length].rstrip(b"\0").decode()
    return f"created {name}" if mask == CREATE else f"event {mask:#x} of {name or 'a file'}"


if sys.argv[1] == "host":
    descriptor = watch(sys.argv[2:])
    print("ready", flush=True)
else:
    print("ready", flush=True)
    sys.stdin.read()
    descriptor = watch(sys.argv[3:])
    control = watch(["/dev/null"])
    for _ in range(100):
        with open("/dev/null", "w") as null:
            null.write("x")
    # The control: the writes do cause an event for /dev/null itself.
    first_event(control)
    open(sys.argv[2], "x").close()
print(first_event(descriptor))
