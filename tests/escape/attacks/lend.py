# The counterpart of plant_later.py. Passes a descriptor of the project to the process that connects
# in the shared folder and, if $1 says so, a file that is open for writing. The socket is made after
# both have started, because a start hides existing sockets.
shared = os.path.expanduser("~/shared/")
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(shared + "made")
listener.listen()
os.rename(shared + "made", shared + "pass")
connection, _ = listener.accept()
lent = [os.open(".", os.O_RDONLY | os.O_DIRECTORY)]
if sys.argv[1] == "with-a-writer":
    lent.append(os.open("mine", os.O_WRONLY | os.O_CREAT, 0o644))
socket.send_fds(connection, [b"x"], lent)
wait_for(shared + "received")
if sys.argv[1] == "while-it-runs":
    wait_for(shared + "tried")
os.unlink(shared + "pass")
done()
