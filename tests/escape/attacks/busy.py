# Keeps one processor busy for a second of its time, and says how long that took.
import time

began = time.monotonic()
while time.process_time() < 1:
    pass
print("share", time.process_time() / (time.monotonic() - began))
done()
