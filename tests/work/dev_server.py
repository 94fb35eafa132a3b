"""Runs a dev server of Vite in the project and fails if it restarts.

The server logs each change of a module that it served. So once it logs a change that was made after
the writes to /dev/null, it has handled the events of those writes.
"""

import queue
import signal
import subprocess
import sys
import threading
import urllib.request

# The sandbox has a network of its own, so the port is free.
PORT = "5173"
COMMAND = ["node", sys.argv[1], "--host", "127.0.0.1", "--port", PORT, "--strictPort"]
server = subprocess.Popen(
    COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
)
lines = queue.Queue()
log = []


def fail(reason):
    sys.exit(f"the server {reason}:\n" + "".join(log))


signal.signal(signal.SIGALRM, lambda *_: fail("hangs"))
signal.alarm(120)


def read_log():
    for line in server.stdout:
        lines.put(line)
    lines.put(None)


threading.Thread(target=read_log, daemon=True).start()


def logs(text, seconds=None):
    """Waits for a line of the log with this text. Returns whether the line came in time."""
    while True:
        try:
            line = lines.get(timeout=seconds)
        except queue.Empty:
            return False
        if line is None:
            fail("ended")
        log.append(line)
        if "restart" in line:
            fail("restarted")
        if text in line:
            return True


def get(path):
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}{path}") as answer:
        return answer.read().decode()


def change(module):
    """Changes a module until the server notices: it may not yet watch the module."""
    while True:
        with open(module, "a") as file:
            file.write("//\n")
        if logs(f"page reload {module}", seconds=0.5):
            return


logs("Local:")
assert "/@vite/client" in get("/")
for module in ["main.js", "one.js", "two.js"]:
    get(f"/{module}")
change("main.js")
for _ in range(100):
    with open("/dev/null", "w") as null:
        null.write("x")
change("one.js")
change("two.js")
assert "/@vite/client" in get("/")
server.stdin.close()
server.terminate()
server.wait()
