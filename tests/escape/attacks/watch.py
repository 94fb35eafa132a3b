# Reads a masked file all the time, until it has content or the host has saved it. The kernel
# detaches a mount before the rename is visible, so the attack ends only when the rename is done.
path = sys.argv[1]
put("started", "")
more = 100
while more:
    try:
        content = open(path, "rb").read()
        if content:
            say("read", repr(content))
            break
    except OSError:
        pass
    time.sleep(0.001)
    if os.path.exists("saved"):
        more -= 1
while not os.path.exists("saved"):
    time.sleep(0.001)
put("looked", "")
done()
