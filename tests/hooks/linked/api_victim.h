/* SPDX-License-Identifier: MIT */
/*
 * api_victim.h - shared by the programs that are linked to the core alone: they report their own blocks through
 * hooks.h, and name a check that fails.
 */
#pragma once

#include "../../support/victim.h"

#include <deltaprof/hooks.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))
#define CHECK(x)                                               \
    do {                                                       \
        if (!(x)) {                                            \
            fprintf(stderr, "%s:%d: %s\n", how, __LINE__, #x); \
            exit(1);                                           \
        }                                                      \
    } while (0)

static const char *how;
static uint32_t heap;
static uintptr_t next_block = 0x10000;

/* Blocks of an allocator that never allocates: addresses are enough. */
NOINLINE void *make(size_t n_bytes)
{
    void *ptr = (void *)(next_block += 0x100);
    errno = E2BIG;
    deltaprof_alloc(heap, ptr, n_bytes);
    CHECK(errno == E2BIG);
    return ptr;
}

static void start(const char *conf)
{
    deltaprof_announce_hooks(DELTAPROF_HOOKS_MALLOC); /* as an interposer would: no warning that there is none */
    heap = deltaprof_heap_register("pool");
    CHECK(heap > 0);
    CHECK(deltaprof_start(conf) == 0);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t ticks(void)
{
    struct deltaprof_stats stats;
    CHECK(deltaprof_get_stats(&stats, sizeof stats) == 0);
    return stats.ticks;
}

static int threads(void)
{
    char line[256];
    int n = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, f))
        sscanf(line, "Threads: %d", &n);
    fclose(f);
    return n;
}

static void wait_for_tick(uint64_t before)
{
    double deadline = now() + 60;
    while (ticks() == before) {
        CHECK(now() < deadline);
        make(10);
        pause_ms(5);
    }
}

struct api_case {
    const char *how;
    void (*run)(void);
};

static int run_case(const struct api_case *cases, size_t n, const char *name)
{
    how = name;
    for (size_t i = 0; i < n; i++)
        if (strcmp(cases[i].how, how) == 0) {
            cases[i].run();
            return 0;
        }
    return 2;
}
