# Tries to read and write a file system that the host mounts during the run.
folder = sys.argv[1]
put("started", "")
wait_for("mounted")
read(folder + "/late")
attempt("put", lambda: put(folder + "/planted", "planted"))
done()
