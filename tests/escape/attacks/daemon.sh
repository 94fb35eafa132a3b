# A process that tries to survive: it has its own session, no terminal, no parent, and ignores
# signals. $1 is a mark in its arguments.
setsid /usr/bin/python3 -I -c 'import os, signal, sys, time
for ignored in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
    signal.signal(ignored, signal.SIG_IGN)
if os.fork():
    os._exit(0)
open("started", "w").close()
time.sleep(300)' "$1" </dev/null >/dev/null 2>&1 &
while [ ! -e started ]; do sleep 0.01; done
if [ "$2" = stay ]; then sleep 300; fi
echo done
