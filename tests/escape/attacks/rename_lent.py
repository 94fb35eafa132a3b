# Runs in another project. Receives a descriptor of the project of a sandbox that is still running,
# moves a path that the sandbox protects away, and creates it again.
shared = os.path.expanduser("~/shared/")
put(shared + "started", "")
wait_for(shared + "pass")
connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
connection.connect(shared + "pass")
_, (folder,), _, _ = socket.recv_fds(connection, 1, 1)
put(shared + "received", "")
for name in sys.argv[1:]:
    attempt("rename " + name, lambda: os.rename(name, name + ".away", src_dir_fd=folder, dst_dir_fd=folder))
    attempt("plant " + name, lambda: put(name + "/planted", "planted", at=folder))
put(shared + "tried", "")
done()
