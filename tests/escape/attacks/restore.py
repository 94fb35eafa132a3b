# Waits until the host has replaced a protected file, and tries to open it. argv: the path, how to
# open it, and the folder to swap for a link meanwhile, with the link's target.
path, how, *swap = sys.argv[1:]
put("started", "")
if swap:
    folder, target = swap
    wait_for("swap")
    attempt("move", lambda: os.rename(folder, "moved"))
    attempt("link", lambda: os.symlink(target, folder))
    put("swapped", "")
wait_for("replaced")
if how == "read":
    read(path)
else:
    def write():
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
        os.write(file, sys.argv[2].encode())
        os.close(file)
    attempt("write", write)
for name in swap:
    read(name + "/.env")
done()
