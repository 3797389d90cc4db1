/* SPDX-License-Identifier: MIT */
/*
 * victim_exit.c - holds memory until its end, and frees it there in one of several ways:
 *
 *     victim_exit HOW WHAT    HOW: return, exit. WHAT: atexit, on_exit, destructor, none,
 *                             small (a hundred small blocks after the large one),
 *                             two (main stays in a handler, and another thread ends the process), two-at-unload
 *     victim_exit leave HOW   the main thread leaves by HOW (exit, cancel, syscall), then the other thread ends
 *     victim_exit leave-alone the only thread leaves by a system call, with status 7
 *     victim_exit forked HOW  the same in a child that another thread forked; HOW may be return, too
 *     victim_exit overtaken   another thread calls exit, and main returns as soon as that thread waits in it
 *     victim_exit peak        holds 64 MiB until its standard input ends, then 1 MiB
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static char *held;
static bool by_destructor, stays_at_unload;

static void give_back(void)
{
    free(held);
    held = NULL;
}

static void give_back_too(int status, void *arg)
{
    (void)status;
    (void)arg;
    give_back();
}

static void nothing(void) {}

__attribute__((destructor)) static void at_unload(void)
{
    if (by_destructor)
        give_back();
}

__attribute__((noinline)) char *hold(size_t n_bytes)
{
    char *block = malloc(n_bytes);
    memset(block, 1, n_bytes);
    return block;
}

static sem_t in_exit;

/* The thread that returned from main stays in exit; the other thread ends the process. */
static void stay(void)
{
    sem_post(&in_exit);
    for (;;)
        pause();
}

__attribute__((destructor(101))) static void stay_at_unload(void)
{
    if (stays_at_unload)
        stay();
}

static void *end_meanwhile(void *unused)
{
    sem_wait(&in_exit);
    hold(MIB);
    exit(3);
    return unused;
}

static void meet_in_exit(bool at_unload)
{
    pthread_t thread;
    sem_init(&in_exit, 0, 0);
    if (pthread_create(&thread, NULL, end_meanwhile, NULL))
        abort();
    atexit(at_unload ? nothing : stay);
    stays_at_unload = at_unload;
}

/* Ends when the main thread has left: only then the kernel's state of it is Z. */
static void *end_after_main(void *unused)
{
    char text[64] = "";
    while (!strstr(text, ") Z")) {
        int fd = open("/proc/self/stat", O_RDONLY);
        if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
            abort();
        close(fd);
    }
    return unused;
}

/* A process of one thread, but for the profiler's. */
static int leave_alone(void)
{
    for (int i = 0; i < 130; i++) { /* the endpoint begins after a second */
        free(hold(MIB));
        usleep(10000);
    }
    held = hold(MIB);
    return (int)syscall(SYS_exit, 7);
}

static void *leave(void *arg)
{
    const char *how = arg;
    pthread_t thread;
    usleep(200000); /* older than a process that gets no thread */
    held = hold(MIB);
    if (pthread_create(&thread, NULL, end_after_main, NULL))
        abort();
    if (!strcmp(how, "return"))
        return NULL;
    if (!strcmp(how, "exit"))
        pthread_exit(NULL);
    if (!strcmp(how, "syscall"))
        syscall(SYS_exit, 0);
    pthread_cancel(pthread_self());
    for (;;)
        pause();
}

/* Only the forking thread is left in the child, and is its main thread. */
static void *fork_and_leave(void *how)
{
    pid_t child = fork();
    if (child == 0)
        return leave(how);
    static int status;
    if (waitpid(child, &status, 0) != child)
        abort();
    return &status;
}

static int leave_in_child(char *how)
{
    pthread_t thread;
    void *status;
    if (pthread_create(&thread, NULL, fork_and_leave, how) || pthread_join(thread, &status))
        abort();
    return *(int *)status;
}

static int peak(void)
{
    char *blocks[64], c;
    usleep(200000); /* older than a process that gets no thread */
    for (int i = 0; i < 64; i++)
        blocks[i] = hold(MIB);
    while (read(0, &c, 1) > 0)
        ;
    for (int i = 1; i < 64; i++)
        free(blocks[i]);
    return 0;
}

static _Atomic long ending;

static void *end_first(void *unused)
{
    ending = syscall(SYS_gettid);
    exit(3);
    return unused;
}

/* A program without exit handlers. */
static int overtaken(void)
{
    char path[64], text[16] = "";
    pthread_t thread;
    held = hold(MIB);
    if (pthread_create(&thread, NULL, end_first, NULL))
        abort();
    while (!ending)
        sched_yield();
    snprintf(path, sizeof path, "/proc/self/task/%ld/syscall", ending);
    while (strtol(text, NULL, 10) != SYS_futex) {
        int fd = open(path, O_RDONLY);
        if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
            break;
        close(fd);
    }
    return 3;
}

int main(int argc, char **argv)
{
    if (!strcmp(argv[1], "overtaken"))
        return overtaken();
    if (!strcmp(argv[1], "peak"))
        return peak();
    if (!strcmp(argv[1], "leave-alone"))
        return leave_alone();
    if (!strcmp(argv[1], "leave"))
        return leave(argv[2]) != NULL;
    if (!strcmp(argv[1], "forked"))
        return leave_in_child(argv[2]);
    const char *what = argv[2];
    held = hold(MIB);
    if (!strcmp(what, "atexit"))
        atexit(give_back);
    if (!strcmp(what, "on_exit"))
        on_exit(give_back_too, NULL);
    by_destructor = !strcmp(what, "destructor");
    for (int i = 0; i < 100 && !strcmp(what, "small"); i++)
        free(hold(100));
    if (!strncmp(what, "two", 3))
        meet_in_exit(!strcmp(what, "two-at-unload"));
    if (!strcmp(argv[1], "exit"))
        exit(argc);
    return argc;
}
