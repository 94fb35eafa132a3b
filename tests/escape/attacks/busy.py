# Uses one second of processor time, and prints over how many periods the kernel has spread it. Only
# a cgroup with a limit counts periods. The command does not know its own cgroup, so this takes the
# largest number below the folder that the test has mounted.
import os
import time

while time.process_time() < 1:
    pass
periods = [0]
for folder, _, names in os.walk("/sys/fs/cgroup"):
    if "cpu.stat" in names:
        counts = dict(line.split() for line in open(f"{folder}/cpu.stat"))
        periods.append(int(counts.get("nr_periods", "0")))
print("periods", max(periods))
done()
