/* SPDX-License-Identifier: MIT */
/* Simulated stacks for the judge of leaks: each block is sampled or not, and each is freed at a time of its own. */
#pragma once

#include "tool/leaks/evidence.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { TICKS = 32, RUNS = 1000, FOREVER = 1 << 20 };
#define SAMPLE 524288.0 /* bytes that a sampled block counts for */

static uint64_t state = 88172645463325252;

static inline double random_share(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / (double)(1ull << 53);
}

static inline int poisson(double mean)
{
    int n = 0;
    for (double product = random_share(), limit = exp(-mean); product > limit; product *= random_share())
        n++;
    return n;
}

/* A stack: sampled blocks per tick, and how many ticks each of them lives. */
struct stack {
    double (*births)(int tick);
    int (*lifetime)(int tick);
};

static inline void simulate(const struct stack *s, struct dp_leaks_process *p, struct dp_leaks_curve *c)
{
    int births[TICKS] = {0}, deaths[TICKS] = {0}, live = 0;
    *p = (struct dp_leaks_process){.n_points = TICKS, .start_ns = 1, .rate = 524288};
    memset(c, 0, sizeof *c);
    for (int t = 0; t < TICKS; t++) {
        births[t] = poisson(s->births(t));
        for (int i = 0; i < births[t]; i++) {
            int end = t + s->lifetime(t);
            if (end < TICKS)
                deaths[end]++;
        }
        live += births[t] - deaths[t];
        p->times_ns[t] = 1 + (t + 1) * 15000000000LL;
        p->work[t] = births[t] + 80;
        c->bytes[t] = live * SAMPLE;
        c->samples[t] = live;
        c->allocated_samples[t] = births[t];
        c->allocated_objects[t] = births[t] * 100.0;
    }
}

static inline double one(int tick)
{
    (void)tick;
    return 1;
}

static inline double twenty(int tick)
{
    (void)tick;
    return 20;
}

static inline int forever(int tick)
{
    (void)tick;
    return FOREVER;
}
