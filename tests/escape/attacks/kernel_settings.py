# The kernel runs the program that core_pattern names as root of the host. This writes back the
# existing text, which changes nothing and shows whether the file is writable.
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory"):
    value = open(path, "rb").read()

    def write():
        file = os.open(path, os.O_WRONLY)
        os.write(file, value)
        os.close(file)

    attempt("write " + path, write)
attempt("open /proc/sysrq-trigger", lambda: os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY)))
done()
