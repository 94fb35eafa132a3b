# Reads the file of this name at both ends of the project.
for folder in ("a/first/box", "z/last/box"):
    read(folder + "/" + sys.argv[1])
done()
