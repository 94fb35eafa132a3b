# Reads the file with this name in the first and in the last folder of the project.
for folder in ("a/first/box", "z/last/box"):
    read(folder + "/" + sys.argv[1])
done()
