# Types at a real terminal, and looks at what a shell, or whoever waits, gets to see. The first word
# names the scene; the others start the product, up to and including `--`.
import fcntl, os, pty, re, select, shlex, signal, struct, sys, termios, time

scene, product = sys.argv[1], sys.argv[2:]
# Far above what any machine needs: it only turns a hang into a failure.
BOUND = 60


class Terminal:
    def __init__(self, words):
        self.seen = ""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.execvp(words[0], words)

    def read(self):
        ready, _, _ = select.select([self.master], [], [], BOUND)
        assert ready, f"nothing for {BOUND} seconds after {self.seen!r}"
        try:
            data = os.read(self.master, 65536)
        except OSError:
            data = b""
        self.seen += data.decode(errors="replace")
        return data

    def expect(self, pattern):
        """Reads until the pattern is there, and forgets all up to its end."""
        while not (found := re.search(pattern, self.seen)):
            assert self.read(), f"ended without {pattern!r}: {self.seen!r}"
        self.seen = self.seen[found.end():]
        return found

    def type(self, text):
        os.write(self.master, text.encode())

    def status(self):
        """How the process ended that the terminal was made for."""
        while self.read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Shell(Terminal):
    """An interactive bash, with job control."""

    def __init__(self):
        super().__init__(["bash", "--norc", "--noprofile", "--noediting", "-i"])
        # Else the kernel throws away, after the signal of a key, what a fast shell has written on
        # account of it.
        self.type("PS1='ready''> '; set +H; stty -echo noflsh\n")
        self.prompt()

    def prompt(self):
        self.expect(r"ready> (\r\n)?$")

    def says(self, command):
        """What a command prints."""
        self.type(command + "; echo ''ended''\n")
        said = self.expect(r"(?s)(.*?)ended\r\n")[1]
        self.prompt()
        return said.replace("\r\n", "\n")


def words(*command):
    return shlex.join([*product, *command])


def sh(script):
    return words("sh", "-c", script)


def python(program):
    return words("/usr/bin/python3", "-I", "-u", "-c", program)


def wait_for(what, *arguments):
    deadline = time.monotonic() + BOUND
    while not what(*arguments):
        assert time.monotonic() < deadline, f"{what} {arguments}"
        time.sleep(0.01)


def state(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "gone"


def is_stopped(pid):
    return state(pid) == "T"


def is_zombie(pid):
    return state(pid) == "Z"


def is_waiting(pid):
    return state(pid) == "S"


# Says each signal, until it is given a line.
NOTE = """
import signal, sys
def note(number, frame):
    print(signal.Signals(number).name)
for name in ('INT', 'QUIT', 'TERM'):
    signal.signal(getattr(signal, 'SIG' + name), note)
print('started')
sys.stdin.readline()
print('end of input')
sys.exit(7)
"""

COUNT = """
import signal, sys
keys = {signal.SIGINT, signal.SIGQUIT}
signal.pthread_sigmask(signal.SIG_BLOCK, keys)
print('started')
number = 0
while signal.sigwait(keys) == signal.SIGINT:
    number += 1
    print('SIGINT', number)
print(number, 'in all')
sys.exit(7)
"""

# Notes the end of its terminal in a file. A program that sleeps in `pause` misses a signal that
# came just before.
HANGUP = """
import os, signal, time
def note(number, frame):
    with open('handled', 'a') as file:
        file.write('SIGHUP')
    os._exit(7)
signal.signal(signal.SIGHUP, note)
print('started')
while True:
    time.sleep(0.01)
"""

# Says each line that it is given.
ECHO = """
import signal, sys
{}
print('started')
for line in sys.stdin:
    print('got', line.strip())
print('end of input')
"""


WENT_ON = """
import os, signal, time
def go_on(*_):
    print('went on')
    os._exit(0)
signal.signal(signal.SIGUSR1, go_on)
print('started')
while True:
    time.sleep(0.01)
"""


def keys_reach_the_handler_once():
    for key, name in (("\x03", "SIGINT"), ("\x1c", "SIGQUIT")):
        terminal = Terminal(shlex.split(python(NOTE)))
        terminal.expect("started\r\n")
        terminal.type(key)
        terminal.expect(name + "\r\n")
        terminal.type("\n")
        terminal.expect("end of input\r\n")
        assert terminal.status() == 7
    # Python merges what comes in quick succession, so they are counted as the kernel delivers them.
    terminal = Terminal(shlex.split(python(COUNT)))
    terminal.expect("started\r\n")
    for number in range(1, 11):
        terminal.type("\x03")
        terminal.expect(f"SIGINT {number}\r\n")
        # A process that might have passed it on has had its turn.
        wait_for(is_waiting, terminal.pid)
    terminal.type("\x1c")
    terminal.expect("10 in all\r\n")
    assert terminal.status() == 7


def keys_kill_as_without_us():
    for key, number in (("\x03", signal.SIGINT), ("\x1c", signal.SIGQUIT)):
        terminal = Terminal(shlex.split(sh("echo started; exec sleep 60")))
        terminal.expect("started\r\n")
        terminal.type(key)
        assert terminal.status() == -number
    # A shell script ends with the command that Ctrl-C killed, as it would without us.
    terminal = Terminal(["bash", "-c", sh("echo started; exec sleep 60") + "; echo went on"])
    terminal.expect("started\r\n")
    terminal.type("\x03")
    assert terminal.status() == -signal.SIGINT and "went on" not in terminal.seen


def a_job_is_stopped_and_continued():
    shell = Shell()
    shell.type(python(ECHO.format("")) + "\n")
    shell.expect("started\r\n")
    for turn in ("one", "two", "three"):
        shell.type("\x1a")
        shell.expect(r"\[1\]\+ +Stopped  ")
        shell.prompt()
        # What a shell gives to others reaches none of ours.
        said = shell.says("read line <<<x; echo \"line $line\"; jobs -p")
        pid = int(re.fullmatch(r"line x\n(\d+)\n", said)[1])
        assert is_stopped(pid)
        shell.type("fg\n")
        shell.type(turn + "\n")
        shell.expect("got " + turn)
        # No key is so quick that it meets a process that is still about to go on.
        wait_for(is_waiting, pid)
    shell.type("\x1a")
    shell.expect("Stopped")
    shell.prompt()
    # It reads, in the background: the terminal stops it.
    shell.type("bg\n")
    shell.prompt()
    wait_for(is_stopped, pid)
    shell.type("fg\n")
    shell.type("four\n")
    shell.expect("got four")
    shell.type("\x04")
    shell.expect("end of input\r\n")
    shell.prompt()
    said = shell.says("echo $?; jobs")
    assert said == "0\n", said


def a_command_that_stops_itself_is_a_stopped_job():
    # Only itself, and nobody else of its group: nothing but its state tells.
    for name in ("STOP", "TSTP"):
        shell = Shell()
        shell.type(python(ECHO.format("") + f"\nsignal.raise_signal(signal.SIG{name})\nprint('went on')\nsys.exit(3)") + "\n")
        shell.expect("started\r\n")
        shell.type("one\n")
        shell.expect("got one")
        shell.type("\x04")
        shell.expect(r"Stopped  " if name == "TSTP" else r"Stopped")
        shell.prompt()
        shell.type("fg\n")
        shell.expect("went on\r\n")
        shell.prompt()
        assert shell.says("echo $?") == "3\n"


def a_command_that_ignores_the_key_goes_on():
    shell = Shell()
    shell.type(python(ECHO.format("signal.signal(signal.SIGTSTP, signal.SIG_IGN)")) + "\n")
    shell.expect("started\r\n")
    shell.type("\x1a")
    shell.type("one\n")
    shell.expect("got one")
    shell.type("\x04")
    shell.expect("end of input\r\n")
    shell.prompt()
    assert shell.says("echo $?; jobs") == "0\n"


def stopping_from_elsewhere_stops_the_command():
    shell = Shell()
    shell.type(python(ECHO.format("")) + " &\n")
    pid = int(shell.expect(r"\[1\] (\d+)")[1])
    # It starts, and then wants to read, in the background.
    shell.expect("started\r\n")
    wait_for(is_stopped, pid)
    shell.type("fg\n")
    shell.type("one\n")
    shell.expect("got one")
    wait_for(is_waiting, pid)
    os.kill(pid, signal.SIGTSTP)
    shell.expect(r"Stopped")
    shell.prompt()
    assert is_stopped(pid)
    shell.type("fg\n")
    shell.type("two\n")
    shell.expect("got two")
    shell.type("\x04")
    shell.expect("end of input\r\n")


def continuing_us_alone_continues_the_command():
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        # In a group with a parent outside of it: one that is orphaned, as whoever runs the tests
        # may be, cannot be stopped by SIGTSTP.
        os.setpgid(0, 0)
        os.dup2(write, 1)
        os.execvp(product[0], shlex.split(python(WENT_ON)))
    os.close(write)
    output = os.fdopen(read)
    assert output.readline() == "started\n"
    os.kill(pid, signal.SIGTSTP)
    assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
    os.kill(pid, signal.SIGCONT)
    os.kill(pid, signal.SIGUSR1)
    assert output.readline() == "went on\n"
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def a_resize_reaches_the_command():
    program = """
import os, signal, time
signal.signal(signal.SIGWINCH, lambda *_: print('size', *os.get_terminal_size()))
print('started')
while True:
    time.sleep(0.01)
"""
    terminal = Terminal(shlex.split(python(program)))
    terminal.expect("started\r\n")
    fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    terminal.expect("size 77 33\r\n")
    terminal.type("\x03")
    assert terminal.status() == -signal.SIGINT


def a_shell_inside_keeps_job_control():
    shell = Shell()
    shell.type(words("bash", "--norc", "--noprofile", "--noediting", "-i") + "\n")
    shell.expect(r"bash[^\n]*[$#] $")
    shell.type("PS1='inside''> '\n")
    shell.expect("inside> $")
    # Only once it answers does it have the terminal.
    for start, key, seen in (("cat", "\x1a", "Stopped"), ("fg", "\x03", "")):
        shell.type(start + "\n")
        shell.type("line\n")
        shell.expect("line\r\n")
        shell.type(key)
        shell.expect(seen)
        shell.expect("inside> $")
    shell.type("echo $?\n")
    shell.expect("130\r\n")
    shell.type("exit 5\n")
    shell.prompt()
    assert shell.says("echo $?") == "5\n"


def the_terminal_comes_back_from_a_shell_inside():
    # No shell with job control is around it, which would take the terminal back itself.
    inside = words("bash", "--norc", "--noprofile", "--noediting", "-i")
    terminal = Terminal(["sh", "-c", inside + "; echo outside; read line; echo got $line"])
    terminal.expect(r"bash[^\n]*[$#] $")
    terminal.type("exit\n")
    terminal.expect("outside\r\n")
    terminal.type("one\n")
    terminal.expect("got one\r\n")
    assert terminal.status() == 0


def a_background_job_is_one():
    shell = Shell()
    assert "done" in shell.says(sh("echo done") + " & wait; echo $?")
    shell.says("stty tostop")
    shell.type(words("echo", "written") + " &\n")
    pid = int(shell.expect(r"\[1\] (\d+)")[1])
    wait_for(is_stopped, pid)
    assert not re.search("^written", shell.seen, re.M), shell.seen
    said = shell.says("jobs -l")
    assert "Stopped (tty output)" in said, said
    shell.type("fg\n")
    shell.expect("written\r\n")
    shell.prompt()
    assert shell.says("echo $?") == "0\n"


def the_end_of_the_terminal_reaches_the_command():
    terminal = Terminal(shlex.split(python(HANGUP)))
    terminal.expect("started\r\n")
    os.close(terminal.master)
    wait_for(is_zombie, terminal.pid)
    assert os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]) == 7
    with open("handled") as file:
        assert file.read() == "SIGHUP"


globals()[scene]()
print("played")
