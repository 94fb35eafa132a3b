# Starts the launcher on a terminal of its own, in the background if the first argument says so.
# Afterwards prints the output on the terminal, the part that a person sees, and the changes of the
# terminal's settings.
import fcntl, re, signal, subprocess, termios

place, launcher = sys.argv[1], sys.argv[2:]
master, slave = os.openpty()
os.setsid()
fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.set_blocking(master, False)


def number(request):
    return struct.unpack("i", fcntl.ioctl(slave, request, b"\0" * 4))[0]


def state():
    TIOCGETD, TIOCGEXCL = 0x5424, 0x80045440
    try:
        settings = termios.tcgetattr(slave)
    except termios.error:
        settings = "of another line discipline"
    return settings, number(TIOCGETD), number(TIOCGEXCL), os.get_blocking(slave)


def prepare():
    os.setpgid(0, 0)
    if place == "foreground":
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.tcsetpgrp(slave, os.getpgrp())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)


def visible(text):
    """The characters that a terminal shows. It does not show titles, concealed text, text for a
    printer, text that scrolls away in a region of one line, or, without wrapping, text beyond
    column 80."""
    text = re.sub(r"\x1b\][^\x07\x1b\x18]*(\x07|\x1b\\|\x18|$)", "", text)
    seen, concealed, narrow, printed, wraps, column = "", False, False, False, True, 0
    for control, ordinary in re.findall(r"\x1b\[([0-9;?<=>]*[A-Za-z])|([^\x1b])", text):
        if control in ("8m", "m", "0m", "28m"):
            concealed = control == "8m"
        if control.endswith("r"):
            narrow = control != "r"
        if control in ("4i", "5i"):
            printed = control == "5i"
        if control in ("?7h", "?7l"):
            wraps = control == "?7h"
        column = 0 if ordinary == "\n" else column + len(ordinary)
        is_cut = not wraps and column > 80
        seen += "" if concealed or narrow or printed or is_cut else ordinary
    return seen


def modes(text):
    """The modes that are not the usual ones."""
    changed = set()
    for sequence in re.findall(r"\x1b\[[0-9;?<=>]*[A-Za-z]|\x1b[=>]|[\x0e\x0f]|\x1b\]|\x18", text):
        name, usual = sequence, False
        if match := re.fullmatch(r"\x1b\[(\??)(\d+)([hl])", sequence):
            name = match[1] + match[2]
            usual = match[3] == ("h" if name in ("?7", "?25") else "l")
        for name_of, of_mode, of_usual in (
            ("keypad", "\x1b=", "\x1b>"),
            ("printer", "\x1b[5i", "\x1b[4i"),
            ("keys", "\x1b[>4;2m", "\x1b[>4;0m"),
            ("kitty", "\x1b[>31u", "\x1b[=0u"),
            ("region", "\x1b[2;3r", "\x1b[r"),
            ("colours", "\x1b[31;8m", "\x1b[m"),
            ("characters", "\x0e", "\x0f"),
            ("unfinished", "\x1b]", "\x18"),
        ):
            if sequence in (of_mode, of_usual):
                name, usual = name_of, sequence == of_usual
        changed.discard(name) if usual else changed.add(name)
    return sorted(changed)


def output():
    try:
        return os.read(master, 65536)
    except BlockingIOError:
        return b""


before = state()
# All output so far. It is read all the time, although the terminal itself may be stopped.
shown = b""
child = subprocess.Popen(launcher, stdin=slave, stdout=slave, stderr=slave, preexec_fn=prepare)
while child.poll() is None:
    shown += output()
    if os.path.exists("attempted") and not os.path.exists("looked"):
        say("foreground", "taken" if os.tcgetpgrp(slave) not in (os.getpgrp(), child.pid) else "left")
        put("looked", "")
    time.sleep(0.002)
while more := output():
    shown += more
after = state()
say("settings", "as before" if before == after else f"changed: {before} {after}")
say("visible", repr(visible(shown.decode(errors="replace"))))
say("modes", modes(shown.decode(errors="replace")))
say("status", child.returncode)
done()
