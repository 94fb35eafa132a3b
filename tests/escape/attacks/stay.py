# Ignores every signal that can be ignored, and holds a lock as long as it lives. With `daemon`, the
# process that does so has left its parent and its session.
import fcntl, signal

for number in range(1, signal.NSIG):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
if sys.argv[1] == "daemon":
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
    else:
        # The command itself does end at SIGTERM.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pause()
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
put("started", "")
while True:
    signal.pause()
