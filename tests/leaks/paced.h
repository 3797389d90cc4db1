/* SPDX-License-Identifier: MIT */
/*
 * paced.h - small programs that work in steps of 20 ms of real time, beside the traffic of a server, and are idle
 * afterwards. State is in globals, so that the memory of a sound program stays reachable.
 */
#pragma once

#include <stddef.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OWN __attribute__((noinline, noclone))

struct paced_program {
    const char *name;
    void (*work)(int step); /* one step of the load */
    void (*idle)(int step); /* one step of the time after it; NULL: none */
};

/* The last entry of each has no name. */
extern const struct paced_program load_then_idle[], short_runs[], linear_queues[], leaking_services[], sound_services[],
    paced_victims[];

extern int n_load_steps; /* how many steps the load has */

unsigned next_random(unsigned below);

/* A program calls it for each block that it loses, with the requested size. The sum is printed at the end. */
void lost(size_t n_bytes);

/* Its first byte is written. Reports fold xmalloc into its caller. */
static inline __attribute__((always_inline)) char *xmalloc(size_t n_bytes)
{
    char *fresh = (char *)malloc(n_bytes);
    if (fresh)
        *fresh = 1;
    return fresh;
}

#ifdef __cplusplus
}
#endif
