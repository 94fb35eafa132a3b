# Creates a file that tools obey, and changes the terminal so that the user does not see the report.
import fcntl, signal, termios

way = sys.argv[1]
if way != "modes":
    put(".envrc", "")
say("done")
if way == "modes":
    modes = "1 6 9 1000 1002 1003 1004 1005 1006 1015 2004 2026".split()
    os.write(1, "".join(f"\x1b[?{mode}h" for mode in modes).encode())
    os.write(1, b"\x1b[?7l\x1b[?25l\x1b[2h\x1b[4h\x1b=\x1b[>4;2m\x1b[>31u\x1b[2;3r\x1b[31;8m\x0e\x1b]0;title")
if way == "conceal":
    os.write(1, b"\x1b[8m\x1b]0;")
if way == "region":
    os.write(1, b"\x1b[1;1r")
if way == "printer":
    os.write(1, b"\x1b[5i")
if way == "unwrapped":
    os.write(1, b"\x1b[?7l")
if way == "settings":
    settings = termios.tcgetattr(0)
    settings[1] &= ~termios.OPOST
    settings[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(0, termios.TCSANOW, settings)
    os.set_blocking(0, False)
    # The kernel may refuse these requests.
    TIOCEXCL, TIOCSETD, N_NULL = 0x540C, 0x5423, 27
    for request, value in ((TIOCEXCL, 0), (TIOCSETD, struct.pack("i", N_NULL))):
        try:
            fcntl.ioctl(0, request, value)
        except OSError:
            pass
if way == "stop":
    termios.tcflow(0, termios.TCOOFF)
if way == "fill":
    # The supervisor shares the open file description, so its descriptor becomes non-blocking, too.
    os.set_blocking(2, False)
    try:
        while True:
            os.write(2, b"x" * 4096)
    except BlockingIOError:
        pass
if way == "foreground":
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.setpgid(0, 0) if os.getpid() != os.getpgrp() else None
    attempt("take", lambda: os.tcsetpgrp(0, os.getpgrp()))
    put("attempted", "")
    wait_for("looked")
# At a normal exit, Python would write to the terminal, which accepts no more output.
os._exit(0)
