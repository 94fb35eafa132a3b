# Reads the variables of each process that a mount of `/proc` shows.
for name in os.listdir(sys.argv[1]):
    if name.isdigit():
        read(sys.argv[1] + "/" + name + "/environ")
done()
