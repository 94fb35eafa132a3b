# Moves a folder to the first or last folder of the project, each time the test names one of them.
ends = {"a": "a/first/box", "z": "z/last/box"}
put("started", "")
while not os.path.lexists("stop"):
    for end, other in ("az", "za"):
        if os.path.lexists("to-" + end):
            os.unlink("to-" + end)
            os.rename(ends[other], ends[end])
            put("at-" + end, "")
    time.sleep(0.002)
done()
