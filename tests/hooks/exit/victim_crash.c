/* SPDX-License-Identifier: MIT */
/*
 * victim_crash HOW [ARG] - makes one block of 1234 bytes in make_last, and crashes in the way that HOW names.
 */
#include "../../support/victim.h"

#include <elf.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static void *held;

NOINLINE void make_last(void)
{
    held = malloc(1234);
}

NOINLINE void fault(void)
{
    *(volatile int *)16 = 1;
}

NOINLINE int overflow(int n)
{
    volatile char room[4096];
    room[0] = (char)n;
    return n < INT_MAX ? overflow(n + 1) + room[0] : 0;
}

static void *overflow_here(void *arg)
{
    free(malloc(10));
    overflow(0);
    return arg;
}

/* The thread never allocates, nor waits for a lock. */
static void *overflow_at_once(void *arg)
{
    overflow(0);
    return arg;
}

static int overflow_at_once_c11(void *arg)
{
    return overflow_at_once(arg) != NULL;
}

/* malloc detects it, and aborts while it holds the arena's lock. */
static void corrupt(void)
{
    char *p = malloc(24);
    memset(p, 255, 48);
    held = malloc(100000);
}

static void burn(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_CPU, &limit);
    limit.rlim_cur = 1;
    setrlimit(RLIMIT_CPU, &limit);
    for (volatile int i = 0;; i++)
        ;
}

/* Reads beyond the end of a file that is mapped. */
static void read_beyond(void)
{
    int fd = memfd_create("short", 0);
    volatile char *p = mmap((void *)0x10000000, 4096, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
    (void)p[0];
}

static void crash(const char *how)
{
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "segv") == 0)
        fault();
    if (strcmp(how, "bus") == 0)
        read_beyond();
    if (strcmp(how, "corrupt") == 0)
        corrupt();
    if (strcmp(how, "overflow") == 0)
        overflow(0);
    if (strcmp(how, "burn") == 0)
        burn();
    raise(atoi(how));
}

static pthread_barrier_t barrier;

static void *crash_together(void *how)
{
    free(malloc(10));
    pthread_barrier_wait(&barrier);
    crash(how);
    return NULL;
}

static void *forever(void *arg)
{
    for (;;)
        free(malloc(100));
    return arg;
}

/* Children, eight at a time, each of which makes its block and crashes. */
static int workers(int n)
{
    int n_running = 0, n_wrong = 0;
    for (int i = 0; i < n || n_running; i++) {
        if (i < n && fork() == 0) {
            free(held);
            make_last();
            crash(i % 2 ? "abort" : "segv");
        }
        n_running += i < n;
        int status;
        if (n_running == 8 || i >= n) {
            wait(&status);
            n_running--;
            n_wrong += !WIFSIGNALED(status) || (WTERMSIG(status) != SIGABRT && WTERMSIG(status) != SIGSEGV);
        }
    }
    return n_wrong ? 4 : 5;
}

/* The tracer sees the same last signal and context as a core dump would contain. */
static int traced(const char *how)
{
    pid_t pid = fork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        make_last();
        crash(how);
    }
    siginfo_t info = {0};
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof regs};
    int status;
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        ptrace(PTRACE_GETSIGINFO, pid, 0, &info);
        ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &all);
        ptrace(PTRACE_CONT, pid, 0, WSTOPSIG(status));
    }
#if defined(__x86_64__)
    uintptr_t pc = regs.rip;
#else
    uintptr_t pc = regs.pc;
#endif
    printf("signal %d code %d address %p in fault %d\n", info.si_signo, info.si_code,
           info.si_code > 0 ? info.si_addr : NULL, pc - (uintptr_t)fault < 32);
    printf("ended by %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return 5;
}

static void on_crash(int number)
{
    say("handled by the program\n");
    signal(number, SIG_DFL);
}

static void show_stack(const char *when)
{
    stack_t now;
    sigaltstack(NULL, &now);
    printf("%s: stack %d size %zu flags %d\n", when, now.ss_sp != NULL, now.ss_size, now.ss_flags);
}

/* Prints the signal stacks and actions that the kernel's calls return to a program. */
static void *show(void *arg)
{
    static char room[65536];
    free(malloc(10));
    show_stack("at first");
    stack_t mine = {.ss_sp = room, .ss_size = sizeof room}, none = {.ss_flags = SS_DISABLE}, old;
    sigaltstack(&mine, &old);
    printf("old: %d\n", old.ss_flags);
    show_stack("mine");
    free(malloc(10));
    sigaltstack(&none, &old);
    printf("old: %d\n", old.ss_sp == room);
    show_stack("none");
    for (int number = 1; number < 32; number++) {
        struct sigaction is;
        sigaction(number, NULL, &is);
        printf("%d: %p %x\n", number, (void *)is.sa_handler, (unsigned)is.sa_flags);
    }
    return arg;
}

static void filter(void)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sigaltstack, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog all = {sizeof program / sizeof *program, program};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all))
        _exit(7);
}

static void *nothing(void *arg)
{
    free(malloc(10));
    return arg;
}

/* All threads of the program block two signals of crashes, and one takes them by sigwait. */
static int waits(void)
{
    sigset_t set;
    pthread_t thread;
    int number = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGABRT);
    sigaddset(&set, SIGSEGV);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    usleep(150000); /* older than a process that gets no thread */
    make_last();
    pthread_create(&thread, NULL, nothing, NULL); /* the background thread comes first */
    pthread_join(thread, NULL);
    usleep(100000);
    kill(getpid(), SIGABRT);
    kill(getpid(), SIGSEGV);
    usleep(100000); /* time for another thread to take them */
    for (int i = 0; i < 2; i++) {
        sigwait(&set, &number);
        printf("taken %d\n", number);
    }
    return 5;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "", *arg = argc > 2 ? argv[2] : "";
    pthread_t thread;
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (strcmp(how, "traced") == 0)
        return traced(arg);
    make_last();
    if (strcmp(how, "show") == 0) {
        show(NULL);
        pthread_create(&thread, NULL, show, NULL);
        pthread_join(thread, NULL);
        return 5;
    }
    if (strcmp(how, "waits") == 0)
        return waits();
    if (strcmp(how, "workers") == 0)
        return workers(atoi(arg));
    if (strcmp(how, "threaded-workers") == 0) {
        pthread_create(&thread, NULL, forever, NULL);
        return workers(atoi(arg));
    }
    if (strcmp(how, "together") == 0) {
        static char *const ways[] = {"abort", "segv"};
        pthread_barrier_init(&barrier, NULL, 2);
        for (int i = 0; i < 2; i++)
            pthread_create(&thread, NULL, crash_together, ways[i]);
        pthread_join(thread, NULL);
    }
    if (strcmp(how, "busy") == 0) { /* ticks, and threads that allocate */
        for (int i = 0; i < 2; i++)
            pthread_create(&thread, NULL, forever, NULL);
        usleep(30000);
        crash(arg);
    }
    if (strcmp(how, "overflow-thread") == 0) {
        pthread_create(&thread, NULL, overflow_here, NULL);
        pthread_join(thread, NULL);
    }
    if (strcmp(how, "overflow-at-once") == 0) {
        pthread_create(&thread, NULL, overflow_at_once, NULL);
        pthread_join(thread, NULL);
    }
    if (strcmp(how, "overflow-at-once-c11") == 0) {
        thrd_t c11;
        thrd_create(&c11, overflow_at_once_c11, NULL);
        thrd_join(c11, NULL);
    }
    if (strcmp(how, "handler") == 0) {
        signal(SIGSEGV, on_crash);
        fault();
    }
    if (strcmp(how, "filtered") == 0) {
        filter();
        for (int i = 0; i < 3; i++) {
            pthread_create(&thread, NULL, nothing, NULL);
            pthread_join(thread, NULL);
        }
        crash(arg);
    }
    crash(how);
    return 3;
}
