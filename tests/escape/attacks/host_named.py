# Listens on a socket that is bound from $1 by the name $2, and starts the launcher. If there is a
# mount point $3, the process that binds has $1 mounted there, in a mount namespace of its own.
# Prints whether a process connected.
import subprocess

folder, name, point = sys.argv[1:4]
listener = socket.socket(socket.AF_UNIX)
child = os.fork()
if child == 0:
    if point:
        unshare(CLONE_NEWNS)
        mount(folder, point, None, MS_BIND)
    os.chdir(folder)
    listener.bind(name)
    os.chmod(name, 0o777)
    listener.listen()
    os._exit(0)
if os.waitpid(child, 0)[1] != 0:
    sys.exit("the service did not start")
listener.setblocking(False)
result = subprocess.run(sys.argv[4:]).returncode
try:
    listener.accept()
    say("connected")
except BlockingIOError:
    say("nobody came")
sys.exit(result)
