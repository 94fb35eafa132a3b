# Waits until the host has replaced a protected file, and tries to open it. Arguments: the path, how
# to open it, and optionally a folder to replace by a link meanwhile, and the link's target.
path, how, *swap = sys.argv[1:]
put("started", "")
if how.startswith("flood"):
    # Causes more events than the kernel queues for the supervisor.
    wait_for("flood")
    with open("/proc/sys/fs/inotify/max_queued_events") as limit:
        for number in range(int(limit.read()) + 100):
            put(f"flood-{number}", "")
            os.unlink(f"flood-{number}")
    put("flooded", "")
if swap:
    folder, target = swap
    wait_for("swap")
    attempt("move", lambda: os.rename(folder, "moved"))
    attempt("link", lambda: os.symlink(target, folder))
    put("swapped", "")
wait_for("replaced")
if how == "flood-until-closed":
    while os.access(path, os.R_OK):
        time.sleep(0.002)
if how in ("read", "flood", "flood-until-closed"):
    read(path)
else:
    def write():
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
        os.write(file, how.encode())
        os.close(file)
    attempt("write", write)
for name in swap:
    read(name + "/.env")
done()
