# Leaves setuid programs, which run as the user even if another user starts them.
import platform

FCHMODAT2 = 452
MODE = 0o4755


def program(name, mode=0o755):
    """Creates a complete program, and returns a descriptor of it."""
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
    os.write(file, b"#!/bin/sh\nid -u\n")
    return file


attempt("chmod", lambda: os.close(program("chmod")) or os.chmod("chmod", MODE))
attempt("fchmod", lambda: os.fchmod(program("fchmod"), MODE))
attempt("fchmodat", lambda: os.close(program("fchmodat")) or os.chmod("fchmodat", MODE, dir_fd=os.open(".", os.O_PATH)))
attempt("fchmodat2", lambda: os.close(program("fchmodat2")) or check(libc.syscall(FCHMODAT2, AT_FDCWD, b"fchmodat2", MODE, 0)))
if platform.machine() == "x86_64":
    attempt("high", lambda: os.close(program("high")) or check(libc.syscall(90, b"high", ctypes.c_ulong(1 << 32 | MODE))))
# The files are created with the bit, and filled by each system call that can fill a file.
attempt("create", lambda: os.close(program("create", MODE)))
attempt("mknod", lambda: os.mknod("mknod", 0o100000 | MODE) or os.write(os.open("mknod", os.O_WRONLY), b"#!/bin/sh\n"))
attempt("empty", lambda: os.close(os.open("empty", os.O_RDWR | os.O_CREAT, MODE)))
attempt("truncate", lambda: os.truncate("empty", 100))
source = program("source")
fill = {
    "copy_file_range": lambda file: os.copy_file_range(source, file, 16, 0),
    "sendfile": lambda file: os.sendfile(file, source, 0, 16),
    "fallocate": lambda file: os.posix_fallocate(file, 0, 16),
}
for name, call in fill.items():
    attempt(name, lambda: call(os.open(name, os.O_RDWR | os.O_CREAT, MODE)))
# Other modes still work, also on directories.
os.mkdir("shared")
os.chmod("shared", 0o2775)
assert os.stat("shared").st_mode & 0o7777 == 0o2775
done()
