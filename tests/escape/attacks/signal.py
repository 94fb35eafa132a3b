# Signals the process group, which the caller may be in as well.
import signal

signal.signal(signal.SIGUSR1, signal.SIG_IGN)
put("attempted", "")
os.kill(0, signal.SIGUSR1)
done()
