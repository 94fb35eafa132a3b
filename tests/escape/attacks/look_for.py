# Reads every file of one name in the project, wherever it is at the moment.
for _ in range(200):
    for folder in ("a/first/box", "z/last/box"):
        try:
            with open(folder + "/" + sys.argv[1]) as file:
                say(file.read())
        except OSError:
            pass
done()
