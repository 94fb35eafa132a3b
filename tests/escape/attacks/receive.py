# Two sandboxes run at once. This one receives a directory descriptor of the other, waits until the
# other and its mounts are gone, and reads the masked file through the descriptor.
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(os.path.abspath("pass"))
listener.listen()
connection, _ = listener.accept()
_, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
put("received", "")
wait_for("other-has-ended")
# The argument is the number of attempts: for the control as many as it needs, else for a second.
for _ in range(int(sys.argv[1])):
    try:
        content = os.read(os.open("secret/key", os.O_RDONLY, dir_fd=descriptors[0]), 4096)
        say("read", repr(content))
        break
    except OSError as error:
        # The kernel destroys a namespace a little after its last process has ended.
        last = error.errno
        time.sleep(0.005)
else:
    say("read", last)
read("file.key", at=descriptors[0])
done()
