# The host mounts something while we run: does it show, and is it writable?
folder = sys.argv[1]
put("started", "")
wait_for("mounted")
read(folder + "/late")
attempt("put", lambda: put(folder + "/planted", "planted"))
done()
