# Keeps one processor busy for a second of its time, and says over how many periods the kernel has
# spread the processor time of its cgroup: none where it does not limit it.
import time

while time.process_time() < 1:
    pass
cgroup = next(line[3:].strip() for line in open("/proc/self/cgroup") if line.startswith("0::"))
counts = dict(line.split() for line in open(f"/sys/fs/cgroup{cgroup}/cpu.stat"))
print("periods", counts.get("nr_periods", "0"))
done()
