# Starts processes until the kernel refuses, or until there are as many as the first argument says.
import resource, signal

try:
    resource.setrlimit(resource.RLIMIT_NPROC, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
except (ValueError, OSError):
    pass
most, children = int(sys.argv[1]), []
try:
    while len(children) < most:
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
except OSError:
    pass
print("processes", len(children) + 1)
for child in children:
    os.kill(child, signal.SIGKILL)
done()
