/* SPDX-License-Identifier: MIT */
/*
 * victim_process HOW [ARG] - makes one block of 1234 bytes in make_last, holds it, and ends, or lives on, in the way
 * that HOW names.
 */
#include "../../support/victim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../support/compat.h"

#define NOINLINE __attribute__((noinline, noclone))

static void *held;

NOINLINE void make_last(void)
{
    held = malloc(1234);
}

NOINLINE void *make_again(void)
{
    void *ptr = malloc(100);
    __asm__ volatile("" ::"r"(ptr) : "memory");
    return ptr;
}

/*
 * Forks children that end at once; with `after`, by a signal that would deliver the parent's profiles; the parent then
 * runs `after`.
 */
static int vforks(void *(*after)(void))
{
    for (volatile int i = 0; i < 20; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            if (after)
                kill(getpid(), SIGTERM);
            _exit(3);
        }
        int status;
        waitpid(pid, &status, 0);
        if (after ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM
                  : !WIFEXITED(status) || WEXITSTATUS(status) != 3)
            return 4;
    }
    if (after)
        after();
    return 5;
}

static void *leave_late(void *arg)
{
    pause_ms(100);
    make_last();
    return NULL;
}

static void *exits(void *arg)
{
    exit(5);
    return arg;
}

static void *forever(void *arg)
{
    for (;;)
        free(make_again());
    return NULL;
}

static void *nothing(void *arg)
{
    return arg;
}

static sigjmp_buf out;

static void jump_out(int signal)
{
    siglongjmp(out, 1);
}

extern int raise_in_malloc __attribute__((weak)); /* defined by behind.c, an allocator behind the profiler */

/* A handler jumps out of the real malloc, through the hook; later events must be seen as before. */
static int jump_out_of_hooks(void)
{
    struct sigaction action = {.sa_handler = jump_out};
    sigaction(SIGUSR1, &action, NULL);
    if (&raise_in_malloc == NULL)
        return 4;
    for (volatile int i = 0; i < 100; i++) {
        if (sigsetjmp(out, 1) == 0) {
            raise_in_malloc = SIGUSR1;
            free(make_again());
            return 4;
        }
        make_last();
    }
    return 5;
}

static void run_filter(void)
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
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
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

extern char *early_kept __attribute__((weak)); /* early.c */
extern char *early_moved __attribute__((weak));

/* Blocks allocated before malloc was known can be moved and freed like any others. */
static int use_early_blocks(void)
{
    (void)dlsym(RTLD_DEFAULT, "malloc");
    if (&early_kept == NULL || !early_kept || strcmp(early_moved, "moved") != 0)
        return 4;
    char *moved = realloc(early_moved, 100000);
    if (strcmp(moved, "moved") != 0 || strcmp(early_kept, "kept") != 0)
        return 4;
    free(moved);
    free(early_kept);
    return 5;
}

extern char **environ;

/* Passes nine words, more than fit into registers, and the environment where the function takes one. */
static void become(const char *how)
{
    static const char path[] = "/bin/echo";
    char *argv[] = {"echo", "1", "2", "3", "4", "5", "6", "7", "8", NULL};
    if (strcmp(how, "execl") == 0)
        execl(path, "echo", "1", "2", "3", "4", "5", "6", "7", "8", (char *)NULL);
    if (strcmp(how, "execle") == 0)
        execle(path, "echo", "1", "2", "3", "4", "5", "6", "7", "8", (char *)NULL, environ);
    if (strcmp(how, "execlp") == 0)
        execlp("echo", "echo", "1", "2", "3", "4", "5", "6", "7", "8", (char *)NULL);
    if (strcmp(how, "execv") == 0)
        execv(path, argv);
    if (strcmp(how, "execve") == 0)
        execve(path, argv, environ);
    if (strcmp(how, "execvp") == 0)
        execvp("echo", argv);
    if (strcmp(how, "execvpe") == 0)
        execvpe("echo", argv, environ);
    if (strcmp(how, "fexecve") == 0)
        fexecve(open(path, O_RDONLY), argv, environ);
    if (strcmp(how, "execveat") == 0)
        execveat(AT_FDCWD, path, argv, environ, 0);
    if (strcmp(how, "syscall") == 0)
        syscall(SYS_execve, path, argv, environ);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "return", *arg = argc > 2 ? argv[2] : "";
    pthread_t thread;

    if (strcmp(how, "late") == 0) { /* allocates nothing itself before it ends */
        pthread_create(&thread, NULL, leave_late, NULL);
        pthread_exit(NULL);
    }
    if (strcmp(how, "jump") == 0)
        return jump_out_of_hooks();
    make_last();
    if (strcmp(how, "early") == 0)
        return use_early_blocks();
    if (strcmp(how, "return") == 0)
        return 5;
    if (strcmp(how, "exit") == 0)
        exit(5);
    if (strcmp(how, "_exit") == 0)
        _exit(5);
    if (strcmp(how, "_Exit") == 0)
        _Exit(5);
    if (strcmp(how, "quick_exit") == 0)
        quick_exit(5);
    if (strcmp(how, "exit_group") == 0)
        syscall(SYS_exit_group, 5);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "crash") == 0)
        raise(SIGSEGV);
    if (strcmp(how, "signal") == 0) {
        raise(atoi(arg));
        return 3;
    }
    if (strcmp(how, "wait") == 0) { /* for the test to kill it */
        say("ready\n");
        while (!stdin_ended(1000))
            ;
        return 3;
    }
    if (strcmp(how, "busy-exit") == 0) { /* threads that allocate while main's destructors run */
        for (int i = 0; i < 4; i++)
            pthread_create(&thread, NULL, forever, NULL);
        pause_ms(50);
        return 5;
    }
    if (strcmp(how, "exits") == 0) { /* several threads in exit at once */
        for (int i = 0; i < 4; i++)
            pthread_create(&thread, NULL, exits, NULL);
        for (;;)
            pause();
    }
    if (strcmp(how, "busy-_exit") == 0) {
        for (int i = 0; i < 4; i++)
            pthread_create(&thread, NULL, forever, NULL);
        pause_ms(50);
        _exit(5);
    }
    if (strcmp(how, "vfork") == 0)
        return vforks(NULL);
    if (strcmp(how, "vfork-killed") == 0)
        return vforks(make_again);
    if (strcmp(how, "exec") == 0) {
        execlp("/nonexistent/program", "program", (char *)NULL);
        become(arg);
        return 4;
    }
    if (strcmp(how, "daemon") == 0) { /* forks twice, closes everything */
        if (fork())
            _exit(0);
        setsid();
        if (fork())
            _exit(0);
        for (int fd = 0; fd < 1024; fd++)
            close(fd);
        free(make_again());
        make_last();
        int fd = open(arg, O_CREAT | O_WRONLY, 0600);
        exit(fd == 0 ? 0 : 6); /* the lowest number is the program's */
    }
    if (strcmp(how, "libc-daemon") == 0) { /* its parent calls libc's internal _exit, which no interposer sees */
        if (daemon(1, 1))
            return 4;
        int fd = open(arg, O_CREAT | O_WRONLY, 0600);
        exit(fd < 0);
    }
    if (strcmp(how, "close") == 0) { /* closes every descriptor that it did not open, while the agent runs */
        do {
            for (int fd = 3; fd < 1024; fd++)
                close(fd);
            free(make_again());
        } while (!stdin_ended(20));
        return 5;
    }
    if (strcmp(how, "chdir") == 0) {
        if (chdir("/"))
            return 4;
        return 5;
    }
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
    if (strcmp(how, "seccomp") == 0) {
        for (int i = 0; i < 10; i++) {
            free(make_again());
            pause_ms(10);
        }
        run_filter();
        run_filter(); /* sandboxes are made of several */
        for (int i = 0; i < 30; i++) {
            free(make_again());
            pause_ms(10);
        }
        return 5;
    }
    if (strcmp(how, "seccomp-asks") == 0) { /* is there such a thing, and with which flags? */
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
            pause_ms(20000);
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
    if (strcmp(how, "six-words") == 0) {
        int fd = memfd_create("six", 0);
        if (ftruncate(fd, 8192) || pwrite(fd, "sixth", 5, 4096) != 5)
            return 4;
        /* mmap's sixth word is the offset */
        char *map = (char *)syscall(SYS_mmap, NULL, 4096L, (long)PROT_READ, (long)MAP_SHARED, (long)fd, 4096L);
        say(memcmp(map, "sixth", 5) == 0 ? "sixth\n" : "lost\n");
        return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1 ? 5 : 4;
    }
    if (strcmp(how, "dlclose") == 0) {
        for (int i = 0; i < 200; i++) {
            void *library = dlopen(arg, RTLD_NOW);
            void *(*make)(size_t) = (void *(*)(size_t))dlsym(library, "plugin_make");
            void *ptr = make(64);
            if (dlclose(library))
                return 4;
            if (i % 2)
                free(ptr);
        }
        return 5;
    }
    if (strcmp(how, "dlerror") == 0) { /* the profiler's own searches leave no error behind */
        say(dlerror() ? "an error\n" : "none\n");
        say(dlsym(RTLD_DEFAULT, "no_such_thing") ? "found\n" : "not found\n");
        const char *text = dlerror();
        say(text && strstr(text, "no_such_thing") ? "the right error\n" : "another error\n");
        return 5;
    }
    if (strcmp(how, "threads") == 0) { /* short-lived ones, more than any pool */
        for (int i = 0; i < 2000; i++) {
            if (pthread_create(&thread, NULL, i % 2 ? leave_late : nothing, NULL))
                return 4;
            if (i % 2 == 0)
                pthread_join(thread, NULL);
            else
                pthread_detach(thread);
        }
        return 5;
    }
    return 2;
}
