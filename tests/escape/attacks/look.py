# Reads everything at and below each path that is named.
for path in sys.argv[1:]:
    if not os.path.isdir(path):
        read(path)
    for folder, _, files in os.walk(path):
        for name in files:
            read(os.path.join(folder, name))
done()
