# Writes a number of bytes, the second argument, to a file, the first argument. After an error it
# goes on in another file beside it.
import resource, signal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
except (ValueError, OSError):
    pass
path, most = sys.argv[1], int(sys.argv[2])
written, number = 0, 0
with open(path, "wb", buffering=0) as file:
    try:
        while written < most:
            written += file.write(b"x" * min(1 << 16, most - written))
    except OSError:
        pass
print("written", written)
done()
