# Starts the launcher on a terminal of its own, and afterwards prints the input of the terminal. No
# user has typed any.
import fcntl, select, subprocess, termios

master, slave = os.openpty()


def take():
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)


settings = termios.tcgetattr(slave)
settings[3] &= ~termios.ECHO
termios.tcsetattr(slave, termios.TCSANOW, settings)
child = subprocess.Popen(sys.argv[1:], stdin=slave, stdout=slave, stderr=slave, preexec_fn=take)
shown = b""
while child.poll() is None:
    if select.select([master], [], [], 0.01)[0]:
        shown += os.read(master, 65536)
# When this line arrives, all earlier output has arrived, too.
LAST = b"the end of all output"
os.write(slave, LAST)
while LAST not in shown:
    shown += os.read(master, 65536)
shown = shown.replace(LAST, b"")
settings = termios.tcgetattr(slave)
settings[3] &= ~termios.ICANON
termios.tcsetattr(slave, termios.TCSANOW, settings)
typed = os.read(slave, 4096) if select.select([slave], [], [], 0.05)[0] else b""
print(shown.decode(errors="replace").replace("\r\n", "\n"))
say("typed", repr(typed))
say("status", child.returncode)
