# Signals its process group, in which the caller may be, too.
import signal

signal.signal(signal.SIGUSR1, signal.SIG_IGN)
put("attempted", "")
os.kill(0, signal.SIGUSR1)
done()
