/* SPDX-License-Identifier: MIT */
/*
 * programs.h - small programs in one executable. Each is a function that does 15 seconds of a server's work and is
 * called once a tick. State is in globals, so that a sound program's memory stays reachable from tick to tick.
 */
#pragma once

#include <cstddef>
#include <cstdlib>

#define OWN __attribute__((noinline, noclone))

enum { N_TICKS = 40 };

struct program {
    const char *name;
    void (*work)(int tick);
    int n_workers; /* processes that do the work; 0: the first process itself */
};

/* The last entry of each has no name. */
extern const program leaking_patterns[], sound_patterns[], timers_and_buffers[], leaking_shapes[], sound_shapes[],
    leaking_sessions_and_tables[], sound_sessions_and_tables[], leaking_servers[], leaking_engines[], sound_servers[],
    sound_engines[], leaking_brokers[], leaking_games[], sound_brokers[], sound_games[];

extern int worker; /* the number of this worker process */

unsigned next_random(unsigned below);

/* Its first byte is written. Reports fold xmalloc into its caller. */
static inline __attribute__((always_inline)) char *xmalloc(size_t n_bytes)
{
    char *fresh = static_cast<char *>(malloc(n_bytes));
    *fresh = 1;
    return fresh;
}
