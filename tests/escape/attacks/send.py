# The counterpart of receive.py: sends the descriptor.
connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
connection.connect(os.path.abspath("pass"))
socket.send_fds(connection, [b"x"], [os.open(".", os.O_RDONLY | os.O_DIRECTORY)])
wait_for("received")
done()
