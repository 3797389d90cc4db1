/* SPDX-License-Identifier: MIT */
/*
 * tests/stress/stress.h - shared by the stress tests: run time, threads, and a check that prints and ends the test.
 * DP_STRESS_MS in the environment is the length of each part; 300 by default.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(cond, ...)                                               \
    do {                                                               \
        if (!(cond)) {                                                 \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #cond); \
            fprintf(stderr, " " __VA_ARGS__);                          \
            fputc('\n', stderr);                                       \
            abort();                                                   \
        }                                                              \
    } while (0)

static inline int64_t stress_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline int64_t stress_length_ms(void)
{
    const char *text = getenv("DP_STRESS_MS");
    return text ? atoll(text) : 300;
}

static inline uint64_t stress_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Runs fn(i) for i below n, each in its own thread; returns when all have ended. */
struct stress_thread {
    pthread_t thread;
    void (*fn)(unsigned);
    unsigned i;
};
static inline void *stress_thread_run(void *arg)
{
    struct stress_thread *t = arg;
    t->fn(t->i);
    return NULL;
}
static inline void stress_threads(unsigned n, void (*fn)(unsigned))
{
    struct stress_thread *t = calloc(n, sizeof *t);
    for (unsigned i = 0; i < n; i++) {
        t[i].fn = fn;
        t[i].i = i;
        CHECK(!pthread_create(&t[i].thread, NULL, stress_thread_run, &t[i]));
    }
    for (unsigned i = 0; i < n; i++)
        pthread_join(t[i].thread, NULL);
    free(t);
}
