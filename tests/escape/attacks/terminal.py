# Types into the terminal of the user, so that their shell runs it. The number of a request has 32 bits; a filter that
# compares 64 is passed by setting one of the others.
import platform

IOCTL = {"x86_64": 16, "aarch64": 29}[platform.machine()]


def ioctl(request, text):
    result = libc.syscall(ctypes.c_long(IOCTL), ctypes.c_long(0), ctypes.c_ulong(request), text)
    check(0 if result >= 0 else result)


put("attempted", "")
attempt("size", lambda: ioctl(0x5413, ctypes.create_string_buffer(8)))
for high in (0, 1 << 32, 0xFFFFFFFF << 32):
    attempt("TIOCSTI", lambda: ioctl(high | 0x5412, b"#"))
    attempt("TIOCLINUX", lambda: ioctl(high | 0x541C, ctypes.create_string_buffer(b"\6", 8)))
done()
