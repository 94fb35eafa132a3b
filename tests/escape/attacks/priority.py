# Lowers the priorities of the process group that it shares with the caller. The kernel reads only
# 32 bits of the arguments, so setting a higher bit passes a filter that compares 64 bits.
import platform

SETPRIORITY, IOPRIO_SET = {"x86_64": (141, 251), "aarch64": (140, 30)}[platform.machine()]
IDLE = 3 << 13


def call(number, *arguments):
    check(libc.syscall(number, *(ctypes.c_ulong(argument) for argument in arguments)))


for high in (0, 1 << 32):
    attempt("setpriority", lambda: call(SETPRIORITY, high | os.PRIO_PGRP, high, 19))
    attempt("ioprio_set", lambda: call(IOPRIO_SET, high | 2, high, IDLE))
attempt("all of the user", lambda: call(SETPRIORITY, os.PRIO_USER, 0, 19))
attempt("all of the user", lambda: call(IOPRIO_SET, 3, 0, IDLE))
# A process may lower the priority of its own processes.
os.setpriority(os.PRIO_PROCESS, 0, 19)
os.setpgid(0, 0)
os.setpriority(os.PRIO_PGRP, os.getpid(), 19)
done()
