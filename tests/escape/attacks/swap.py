# Exchanges a folder and a link to TARGET when the test says so.
folder, target = sys.argv[1:3]
work, link = os.path.dirname(folder), folder + ".link"
os.symlink(target, link)
put(work + "/ready", "")
wait_for(work + "/swap")
exchange(folder, link)
put(work + "/swapped", "")
wait_for(work + "/stop")
done()
