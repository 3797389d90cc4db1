/* SPDX-License-Identifier: MIT */
/*
 * victim_sandbox HOW [ARG] - makes one block of 1234 bytes in make_last, holds it, gives up rights in the way that HOW
 * names (namespaces, seccomp, limits, another user), and ends with status 5.
 */
#include "make_last.h"

#include "../../support/victim.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../support/compat.h"

/* As of a language whose library makes its own system calls: no hook sees it. */
static long call_directly(long number, long a, long b, long c)
{
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = 0, r8 __asm__("r8") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c, x3 __asm__("x3") = 0, x4 __asm__("x4") = 0;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
#endif
}

static void run_filter(bool directly)
{
    /* Everything but openat, socket and clone: what a sandbox forbids after start. */
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog filter = {sizeof program / sizeof *program, program};
    if (directly)
        call_directly(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0);
    else
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (directly ? call_directly(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, (long)&filter)
                 : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        _exit(7);
}

/* Allows only the calls that libc makes below: getpid kills the process; without `masks`, so does rt_sigprocmask. */
static void run_narrow_filter(bool masks)
{
    unsigned allowed[] = {SYS_write,    SYS_exit,          SYS_exit_group, SYS_brk,   SYS_mmap,    SYS_munmap,
                          SYS_mprotect, SYS_madvise,       SYS_futex,      SYS_prctl, SYS_seccomp, SYS_clock_nanosleep,
                          SYS_rseq,     SYS_rt_sigprocmask};
    enum { N = sizeof allowed / sizeof *allowed };
    struct sock_filter program[N + 3] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        [N + 1] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        [N + 2] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    if (!masks)
        allowed[N - 1] = SYS_write;
    for (unsigned i = 0; i < N; i++)
        program[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], N - i, 0);
    struct sock_fprog filter = {N + 3, program};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter))
        _exit(7);
}

NOINLINE void make_deep(int n)
{
    char room[3000];
    free(make_again());
    if (n)
        make_deep(n - 1);
    __asm__ volatile("" ::"r"(room) : "memory");
}

/* A thread whose first event comes in strict mode, where reading the clock fails and a system call kills it. */
static void *work_strictly(void *arg)
{
    if (syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0))
        _exit(7);
    for (int i = 0; i < 100; i++)
        free(make_again());
    say("worked\n");
    syscall(SYS_exit, 0);
    return arg;
}

/* The same without seccomp: reading the time stamp counter is a SIGSEGV. */
static int work_without_clock(void)
{
#if defined(__x86_64__)
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0))
        return 7;
#endif
    pid_t pid = fork();
    for (int i = 0; i < 1000; i++)
        free(make_again());
    if (pid == 0)
        return 5;
    int status;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void contend(void)
{
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&mutex);
        make_deep(20);
        pause_ms(1);
        pthread_mutex_unlock(&mutex);
    }
}

static void *contend_and_leave(void *arg)
{
    contend();
    pthread_exit(arg);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "", *arg = argc > 2 ? argv[2] : "";
    pthread_t thread;

    make_last();
    if (strcmp(how, "unshare") == 0) { /* only a process of one thread may make a user namespace */
        for (int i = 0; i < 30; i++) {
            free(make_again());
            pause_ms(10);
        }
        int result = unshare(CLONE_NEWUSER);
        char line[60];
        snprintf(line, sizeof line, "unshare: %d errno %d\n", result, result ? errno : 0);
        say(line);
        for (int i = 0; i < 30; i++) {
            free(make_again());
            pause_ms(10);
        }
        return 5;
    }
    if (strcmp(how, "seccomp") == 0 || strcmp(how, "seccomp-directly") == 0) {
        bool directly = strcmp(how, "seccomp") != 0;
        for (int i = 0; i < (directly ? 60 : 10); i++) { /* a filter in the middle of a tick is not survived */
            free(make_again());
            pause_ms(10);
        }
        run_filter(directly);
        run_filter(directly); /* sandboxes are made of several */
        for (int i = 0; i < (directly ? 200 : 30); i++) {
            free(make_again());
            pause_ms(10);
        }
        return 5;
    }
    if (strcmp(how, "seccomp-asks") == 0) { /* is there such a thing, and with which flags? */
#if defined(__x86_64__)
        if (syscall(SYS_prctl, PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0)) /* it is enabled: nothing changes */
            return 4;
#endif
        if (!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) ||
            !syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) ||
            !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL))
            return 4;
        free(make_again());
        return 5;
    }
    if (strcmp(how, "strict") == 0) {
        mallopt(M_ARENA_MAX, 1); /* a second one would be mapped */
        pthread_create(&thread, NULL, work_strictly, NULL);
        pthread_join(thread, NULL);
        _exit(5);
    }
    if (strcmp(how, "clockless") == 0)
        return work_without_clock();
    if (strcmp(how, "narrow") == 0) {
        pthread_create(&thread, NULL, contend_and_leave, NULL); /* the first pthread_exit loads libgcc_s */
        pthread_join(thread, NULL);
        pthread_create(&thread, NULL, contend_and_leave, NULL);
        run_narrow_filter(true);
        contend();
        pthread_join(thread, NULL);
        run_narrow_filter(false);
        make_deep(200);
        if (strcmp(arg, "wait") == 0) {
            say("ready\n");
            pause_ms(60000);
        }
        _exit(5);
    }
    if (strcmp(how, "no-files") == 0) { /* a sandbox of rlimits; stdout is a pipe */
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0});
        return 5;
    }
    if (strcmp(how, "setuid") == 0) { /* glibc's setuid signals every thread and waits for each */
        for (int i = 0; i < 20; i++) {
            free(make_again());
            pause_ms(10);
        }
        if (setgid(65534) || setuid(65534))
            return 4;
        return 5;
    }
    return 2;
}
