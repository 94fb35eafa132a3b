# Uses one second of processor time, and prints over how many periods the kernel has spread it for
# this cgroup. Without a limit there are none.
import time

while time.process_time() < 1:
    pass
cgroup = next(line[3:].strip() for line in open("/proc/self/cgroup") if line.startswith("0::"))
counts = dict(line.split() for line in open(f"/sys/fs/cgroup{cgroup}/cpu.stat"))
print("periods", counts.get("nr_periods", "0"))
done()
