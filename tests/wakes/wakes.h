// SPDX-License-Identifier: MIT
// What the programs of this directory share: threads, a way to wait for each other while they are set up, and the table
// of modes.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct mode {
    const char *name;
    void (*run)(void);
};

// Threads that have reached the place before which the others wait.
static atomic_int n_there;

static inline pthread_t start_thread(void *(*run)(void *), void *argument)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, run, argument) != 0) {
        perror("pthread_create");
        exit(2);
    }
    return thread;
}

static inline void arrive_and_await(int n)
{
    atomic_fetch_add(&n_there, 1);
    while (atomic_load(&n_there) < n)
        usleep(1000);
}

// Tells the reader that all threads are about to wait.
static inline void say_ready(void)
{
    usleep(100000);
    printf("ready\n");
    fflush(stdout);
}

static inline void join_all(pthread_t *threads, int n)
{
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

// Goes on with other work, as a program does of which one part is stuck.
__attribute__((noreturn)) static inline void tick_forever(void)
{
    for (;;)
        usleep(50000);
}

static inline void *shared_memory(size_t size_bytes)
{
    return mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static inline void init_mutex(pthread_mutex_t *mutex, int type, int shared, int robust)
{
    pthread_mutexattr_t attributes;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, type);
    pthread_mutexattr_setpshared(&attributes, shared ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE);
    pthread_mutexattr_setrobust(&attributes, robust ? PTHREAD_MUTEX_ROBUST : PTHREAD_MUTEX_STALLED);
    pthread_mutex_init(mutex, &attributes);
}

static inline void read_byte(int fd)
{
    char byte;

    if (read(fd, &byte, 1) != 1)
        _exit(3);
}

static inline void write_byte(int fd)
{
    if (write(fd, "x", 1) != 1)
        _exit(3);
}

// As much as makes a sample sure: a process without samples has no thread that writes profiles.
static inline void allocate_some(void)
{
    for (int i = 0; i < 256; i++) {
        char *volatile block = malloc(65536);

        memset(block, i, 65536);
        free(block);
    }
}

static inline int run_mode(const struct mode *modes, size_t n_modes, int argc, char **argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < n_modes; i++) {
        if (argc < 2) {
            printf("%s\n", modes[i].name);
        } else if (strcmp(argv[1], modes[i].name) == 0) {
            allocate_some();
            modes[i].run();
            return 0;
        }
    }
    return argc < 2 ? 0 : 2;
}
