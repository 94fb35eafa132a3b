# Plays a scene: types at a real terminal, and checks the output and the status that a shell or
# another parent sees. The first argument names the scene. The others, up to and including `--`,
# start agent-sandbox.
import fcntl, os, pty, re, select, shlex, signal, struct, sys, termios, time

scene, product = sys.argv[1], sys.argv[2:]
# Seconds, far more than any machine needs: the limit only turns a hang into a failure.
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
        """Reads until the output has the pattern, and forgets the output up to its end."""
        while not (found := re.search(pattern, self.seen)):
            assert self.read(), f"ended without {pattern!r}: {self.seen!r}"
        self.seen = self.seen[found.end():]
        return found

    def type(self, text):
        os.write(self.master, text.encode())

    def status(self):
        """The exit code of the process that was started at the terminal."""
        while self.read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Shell(Terminal):
    """An interactive bash, with job control."""

    def __init__(self):
        super().__init__(["bash", "--norc", "--noprofile", "--noediting", "-i"])
        # Without `noflsh`, a key that sends a signal makes the kernel discard output, and a fast
        # shell may already have written its answer.
        self.type("PS1='ready''> '; set +H; stty -echo noflsh\n")
        self.prompt()

    def prompt(self):
        self.expect(r"ready> (\r\n)?$")

    def says(self, command):
        """The output of a command."""
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


# Prints each signal, until it reads a line.
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

# Writes the SIGHUP of its terminal to a file. It does not wait in `pause`, which would miss a
# signal that came just before.
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

# Prints each line that it reads.
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
    # Python's handlers merge signals in quick succession, so COUNT takes them with sigwait.
    terminal = Terminal(shlex.split(python(COUNT)))
    terminal.expect("started\r\n")
    for number in range(1, 11):
        terminal.type("\x03")
        terminal.expect(f"SIGINT {number}\r\n")
        # By now, a supervisor that wrongly forwards the signal would have done so.
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
        # Input for other commands of the shell does not reach the stopped job.
        said = shell.says("read line <<<x; echo \"line $line\"; jobs -p")
        pid = int(re.fullmatch(r"line x\n(\d+)\n", said)[1])
        assert is_stopped(pid)
        shell.type("fg\n")
        shell.type(turn + "\n")
        shell.expect("got " + turn)
        # The next key must not come before the process has continued.
        wait_for(is_waiting, pid)
    shell.type("\x1a")
    shell.expect("Stopped")
    shell.prompt()
    # The job reads in the background, so the terminal stops it.
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
    # The command stops only itself, not its group, so only its state shows the stop.
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
    # The job starts in the background, and is stopped when it reads.
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
        # SIGTSTP does not stop an orphaned process group, which this one may be. A new group has a
        # parent outside of it.
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
    # A command has the terminal once it answers.
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
    # The outer shell has no job control, so it does not take the terminal back itself.
    inside = words("bash", "--norc", "--noprofile", "--noediting", "-i")
    terminal = Terminal(["sh", "-c", inside + "; echo outside; read line; echo got $line"])
    terminal.expect(r"bash[^\n]*[$#] $")
    terminal.type("exit\n")
    terminal.expect("outside\r\n")
    terminal.type("one\n")
    terminal.expect("got one\r\n")
    assert terminal.status() == 0


def a_background_job_stays_in_the_background():
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
