# Runs in another project. Receives a descriptor of a sandbox's project, waits until that sandbox
# has ended and removed its placeholders, and creates the path that was blocked.
shared = os.path.expanduser("~/shared/")
put(shared + "started", "")
wait_for(shared + "pass")
connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
connection.connect(shared + "pass")
_, descriptors, _, _ = socket.recv_fds(connection, 1, 2)
put(shared + "received", "")
wait_for(shared + "other-has-ended")


def plant():
    os.mkdir(".vscode", dir_fd=descriptors[0])
    file = os.open(".vscode/tasks.json", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=descriptors[0])
    os.write(file, b"planted")


attempt("plant", plant)
# Tries again while another sandbox, which was started meanwhile in that project, ends.
put(shared + "tried", "")
wait_for(shared + "again")
attempt("plant again", plant)
done()
