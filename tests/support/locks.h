/* SPDX-License-Identifier: MIT */
/* locks.h - shared by the victims that use locks: clocks, threads, mutexes of every type. */
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "deadline.h"

#define APART __attribute__((noinline))

static inline int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline struct timespec soon(long us)
{
    return time_after(CLOCK_REALTIME, us * 1000);
}

static inline void pass_us(long us)
{
    if (us >= 1000) {
        usleep((useconds_t)us);
        return;
    }
    for (int64_t until = now_ns() + us * 1000; now_ns() < until;)
        ;
}

/* Whether a thread of this process sleeps; 0 is none. */
static inline bool sleeps(int tid)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    int fd = tid ? open(path, O_RDONLY) : -1;
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    const char *state = strrchr(text, ')');
    if (fd >= 0)
        close(fd);
    return state && strncmp(state, ") S", 3) == 0;
}

/* For waiting until a thread sleeps in a lock: the thread stores its id here before it locks. */
static _Atomic int taker;
static inline void says_it_takes(void)
{
    taker = (int)syscall(SYS_gettid);
}
static inline void until_it_sleeps(void)
{
    while (!sleeps(taker))
        sched_yield();
    taker = 0;
}

static inline void run_threads(int n, void *(*fn)(void *))
{
    pthread_t *t = calloc((size_t)n, sizeof *t);
    for (intptr_t i = 0; i < n; i++)
        pthread_create(&t[i], NULL, fn, (void *)i);
    for (int i = 0; i < n; i++)
        pthread_join(t[i], NULL);
    free(t);
}

static inline void make(pthread_mutex_t *m, int type, int robust, int protocol)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, type);
    pthread_mutexattr_setrobust(&a, robust);
    pthread_mutexattr_setprotocol(&a, protocol);
    pthread_mutex_init(m, &a);
}
