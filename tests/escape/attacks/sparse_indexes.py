# Plants nested repositories, each with a sparse index file of 250 MB.
import subprocess

SIZE = 250_000_000
names = ["m/%d" % number for number in range(int(sys.argv[1]))]
for name in names:
    for folder in "objects", "refs/heads":
        os.makedirs("%s/.git/%s" % (name, folder))
    put(name + "/.git/HEAD", "ref: refs/heads/main\n")
    put(name + "/.git/config", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
    with open(name + "/.git/index", "wb") as index:
        index.write(b"DIRC" + struct.pack(">II", 2, 0) + b"ZZZZ" + struct.pack(">I", SIZE))
        index.truncate(20 + SIZE + 20)
listed = "".join("160000 %040x\t%s\n" % (1, name) for name in names)
subprocess.run(["git", "update-index", "--add", "--index-info"], input=listed.encode(), check=True)
done()
