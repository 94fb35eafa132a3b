# Tries what root can do to mounts: remove masks, make the host writable, mount over a protected
# path.
masked, read_only, outside = sys.argv[1:4]
attempt("umount", lambda: umount(masked))
read(masked + "/key")
attempt("umount", lambda: umount(read_only))
attempt("remount", lambda: mount(None, read_only, None, MS_REMOUNT | MS_BIND))
attempt("put", lambda: put(read_only + "/pre-commit", "planted"))
attempt("remount", lambda: mount(None, "/", None, MS_REMOUNT | MS_BIND))
attempt("put", lambda: put(outside, "planted"))
done()
