# Types commands into the user's terminal for the user's shell, and changes the terminal's settings.
# The kernel reads only 32 bits of a request's number, so setting a higher bit passes a filter that
# compares 64 bits.
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
    # No kernel has this line discipline: an existing one would end the output of the control.
    attempt("TIOCSETD", lambda: ioctl(high | 0x5423, struct.pack("i", 999)))
    attempt("TIOCEXCL", lambda: ioctl(high | 0x540C, None))
    # The modes of the console's keyboard and screen, and of switching between consoles.
    for number in (0x4B45, 0x4B3A, 0x5602, 0x5606):
        attempt("TIOC-console", lambda: ioctl(high | number, ctypes.c_long(0)))
done()
