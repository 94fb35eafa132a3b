/* System calls that no coding agent needs and that bypass other protections: the user's keyring, machines beside this
 * one, work handed to the kernel where no filter sees it, and other numbers for the same calls. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long key_add(void) { return syscall(SYS_add_key, "user", "agent-sandbox-test", "x", 1L, -1L /* own thread */); }
static long key_control(void) { return syscall(SYS_keyctl, 0L /* get id */, -1L /* own thread */, 1L); }
static long key_request(void) { return syscall(SYS_request_key, "user", "agent-sandbox-test-none", 0L, 0L); }
static long vsock(void) { return socket(AF_VSOCK, SOCK_STREAM, 0); }

static long ring_setup(void)
{
    char parameters[120];
    memset(parameters, 0, sizeof parameters);
    return syscall(SYS_io_uring_setup, 1L, parameters);
}

#ifdef __x86_64__
static long x32(void) { return syscall(0x40000000L | 39 /* getpid */); }

static long int80(void)
{
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L /* getpid of i386 */) : "memory", "r8", "r9", "r10", "r11");
    if ((int)result < 0) {
        errno = -(int)result;
        return -1;
    }
    return result;
}
#endif

static void attempt(const char *name, long (*call)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        errno = 0;
        long result = call();
        /* ENOKEY is an answer of the keyring, so the call was not refused. */
        int answered = result >= 0 || errno == ENOKEY;
        printf("%s %s %d\n", name, answered ? "ok" : "errno", answered ? 0 : errno);
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        printf("%s signal %d\n", name, WTERMSIG(status));
}

int main(void)
{
    attempt("add_key", key_add);
    attempt("keyctl", key_control);
    attempt("request_key", key_request);
    attempt("vsock", vsock);
    attempt("io_uring", ring_setup);
#ifdef __x86_64__
    attempt("x32", x32);
    attempt("int80", int80);
#endif
    puts("done");
    return 0;
}
