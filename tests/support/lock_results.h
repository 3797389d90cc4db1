/* SPDX-License-Identifier: MIT */
/*
 * lock_results.h - prints tables of documented results, as `call: result errno`. A program prints its table without and
 * with the preload object. Both tables must be equal, and as documented by POSIX and glibc.
 */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "compat.h"
#include "deadline.h"

static int broken;

static inline const char *name_of(int code)
{
    static char number[16];
    const char *name = code > 0 ? strerrorname_np(code) : NULL;
    snprintf(number, sizeof number, "%d", code);
    return name ? name : number;
}

/* errno is 77 before each call, and must be 77 after it unless the call reports by errno. */
#define SAYS(expected, call)                                             \
    do {                                                                 \
        errno = 77;                                                      \
        int result_ = (call);                                            \
        int errno_ = errno;                                              \
        printf("%s: %s %s\n", #call, name_of(result_), name_of(errno_)); \
        if (result_ != (expected)) {                                     \
            printf("  promised: %s\n", name_of(expected));               \
            broken = 1;                                                  \
        }                                                                \
    } while (0)
#define SETS(expected, call)                                     \
    do {                                                         \
        SAYS(-1, call);                                          \
        if (errno != (expected)) {                               \
            printf("  promised errno: %s\n", name_of(expected)); \
            broken = 1;                                          \
        }                                                        \
    } while (0)

static inline struct timespec in_ms(clockid_t clock, long ms)
{
    return time_after(clock, ms * 1000000);
}
static const struct timespec past = {1, 0}, bad = {1, 1000000000}, negative = {1, -1};

/* Runs fn(arg) in a new thread and waits for its end. */
static inline void elsewhere(void *(*fn)(void *), void *arg)
{
    pthread_t t;
    pthread_create(&t, NULL, fn, arg);
    pthread_join(t, NULL);
}

static inline pthread_mutex_t *made(pthread_mutex_t *m, int type, int robust, int protocol, int shared)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, type);
    pthread_mutexattr_setrobust(&a, robust);
    pthread_mutexattr_setprotocol(&a, protocol);
    pthread_mutexattr_setpshared(&a, shared);
    pthread_mutex_init(m, &a);
    return m;
}

static inline void *forever(void *arg)
{
    for (;;)
        pause();
    return arg;
}

/* Starts a thread, so that the process counts as one with threads. */
static inline void have_threads(void)
{
    pthread_t t;
    sigset_t set;
    sigfillset(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&t, NULL, forever, NULL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
