# Reads a masked file all the time, until it shows something or the host has saved it.
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
done()
