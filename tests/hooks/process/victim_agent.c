/* SPDX-License-Identifier: MIT */
/*
 * victim_agent HOW [PLUGIN] - does what HOW names until its standard input ends, then ends with status 5. The driver
 * looks for the profiles that the background thread writes meanwhile.
 */
#include "../../support/victim.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *held[1000];
static const char *plugin;
static atomic_int word;

static int threads(void)
{
    struct stat st;
    return stat("/proc/self/task", &st) ? -1 : (int)st.st_nlink - 2;
}

static void *make(size_t n)
{
    void *ptr = malloc(n);
    __asm__ volatile("" ::"r"(ptr) : "memory");
    return ptr;
}

NOINLINE void make_load(int n_blocks, size_t n)
{
    for (int i = 0; i < n_blocks; i++)
        memset(held[i] = make(n), 1, n);
}

/* ---- a thread in the loader waits for a mutex that an allocating thread holds ----------------------------------- */

static int wants_mutex(struct dl_phdr_info *info, size_t n_bytes, void *ctx)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return 0;
}

static void *lists_objects(void *arg)
{
    for (;;)
        dl_iterate_phdr(wants_mutex, NULL);
    return arg;
}

static void *opens_and_closes(void *arg)
{
    for (;;)
        dlclose(dlopen(plugin, RTLD_NOW));
    return arg;
}

static void *allocates_locked(void *arg)
{
    for (;;) {
        pthread_mutex_lock(&mutex);
        for (int i = 0; i < 100; i++)
            free(make(100));
        pthread_mutex_unlock(&mutex);
    }
    return arg;
}

/* ---- an allocator that uses pthread mutexes: locker.c ----------------------------------------------------------- */

extern long locker_count(void) __attribute__((weak));

static void *allocates(void *arg)
{
    for (;;)
        free(make(100));
    return arg;
}

static void *counts(void *arg)
{
    for (;;)
        locker_count();
    return arg;
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

static void *waits(void *arg)
{
    for (;;)
        pause();
    return arg;
}

static int waits_c11(void *arg)
{
    for (;;)
        pause();
    return 0;
}

/* Runs in a clone that shares its creator's thread area: no call may fail, because that would set errno. */
static int waits_raw(void *arg)
{
    while (!word)
        syscall(SYS_sched_yield);
    return 0;
}

enum { RAW = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM };
static char raw_stack[64 << 10] __attribute__((aligned(16)));

/* Creates a thread that no hook sees: the agent is not created while it exists. */
static int hidden_thread(void)
{
    int (*hidden)(int (*)(void *), void *, int, void *, ...) =
        (int (*)(int (*)(void *), void *, int, void *, ...))dlsym(dlopen("libc.so.6", RTLD_NOW), "clone");
    if (hidden(waits_raw, raw_stack + sizeof raw_stack, RAW, NULL) < 0)
        return 4;
    for (int i = 0; i < 300; i++) {
        free(make(100));
        pause_ms(1);
        if (threads() != 2)
            return 4;
    }
    atomic_store(&word, 1);
    while (threads() != 1)
        pause_ms(1);
    say("ready\n");
    while (!stdin_ended(1))
        free(make(100));
    return threads() == 2 ? 5 : 4;
}

/* pthread_create fails, as it would without the profiler, and no thread is left. */
static int no_thread(void)
{
    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    if (pthread_attr_setstacksize(&attr, (size_t)1 << 46))
        return 4;
    for (int i = 0; i < 10; i++)
        if (pthread_create(&thread, &attr, waits, NULL) != EAGAIN || threads() != 1)
            return 4;
    return 5;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    plugin = argc > 2 ? argv[2] : "";
    pthread_t thread;
    thrd_t c11;

    if (strcmp(how, "loader") == 0) {
        pthread_create(&thread, NULL, lists_objects, NULL);
        pthread_create(&thread, NULL, opens_and_closes, NULL);
        pthread_create(&thread, NULL, allocates_locked, NULL);
        wait_for_stdin();
        return 5;
    }
    if (strcmp(how, "locker") == 0) {
        if (!locker_count)
            return 4;
        for (int i = 0; i < 2; i++)
            pthread_create(&thread, NULL, allocates, NULL);
        pthread_create(&thread, NULL, counts, NULL);
        wait_for_stdin();
        _exit(5);
    }
    if (strcmp(how, "hidden") == 0)
        return hidden_thread();
    if (strcmp(how, "no-thread") == 0)
        return no_thread();

    if (strcmp(how, "load") == 0) {
        make_load(200, 1 << 20);
    } else if (strcmp(how, "fork") == 0) { /* a child of a process with threads has one */
        pthread_create(&thread, NULL, waits, NULL);
        pid_t pid = fork();
        if (pid == 0) {
            make_load(200, 1 << 20);
            wait_for_stdin();
            _exit(threads() == 2 ? 5 : 4);
        }
        int status;
        waitpid(pid, &status, 0);
        return WEXITSTATUS(status);
    } else {
        make_load(10, 1000);
        if (strcmp(how, "pthread") == 0)
            pthread_create(&thread, NULL, waits, NULL);
        else if (strcmp(how, "c11") == 0)
            thrd_create(&c11, waits_c11, NULL);
        else if (strcmp(how, "clone") == 0)
            clone(waits_raw, raw_stack + sizeof raw_stack, RAW, NULL);
        else
            return 4;
    }
    wait_for_stdin();
    atomic_store(&word, 1);
    return 5;
}
