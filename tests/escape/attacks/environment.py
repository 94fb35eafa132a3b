# Prints its own environment, and the environments and arguments of the sandbox's other processes.
say(dict(os.environ))
for process in filter(str.isdigit, os.listdir("/proc")):
    for what in ("environ", "cmdline"):
        # Not the arguments of this process, which hold the attack.
        if (process, what) != (str(os.getpid()), "cmdline"):
            read("/proc/%s/%s" % (process, what))
done()
