# Exchanges a folder and a link to TARGET for ever, to hit the moment between looking at the folder and mounting it.
folder, target = sys.argv[1:3]
link = folder + ".link"
os.symlink(target, link)
put(os.path.join(os.path.dirname(folder), "swapping"), "")
while True:
    exchange(folder, link)
