/* SPDX-License-Identifier: MIT */
/*
 * tally.h - counts, inside a victim, how much each function allocated and how much of that is still in use. A block's
 * header has its owner and size, so that a free is subtracted from the right function. Does not allocate or use stdio.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tally {
    const char *function;
    _Atomic int64_t alloc_objects, alloc_bytes, free_objects, free_bytes;
};

/* The header of every block. */
struct block {
    struct tally *owner;
    size_t n_bytes;
};

#define NOINLINE __attribute__((noinline, noclone))

/* Counts a new block; the owner is the function that called malloc. */
static inline struct block *tally_alloc(struct tally *t, void *ptr, size_t n_bytes)
{
    struct block *b = ptr;
    if (!b)
        abort();
    b->owner = t;
    b->n_bytes = n_bytes;
    atomic_fetch_add(&t->alloc_objects, 1);
    atomic_fetch_add(&t->alloc_bytes, (int64_t)n_bytes);
    return b;
}

static inline void tally_free(struct tally *owner, size_t n_bytes)
{
    atomic_fetch_add(&owner->free_objects, 1);
    atomic_fetch_add(&owner->free_bytes, (int64_t)n_bytes);
}

/* Prints one line per function: pid function alloc_objects alloc_bytes inuse_objects inuse_bytes. */
static inline void tally_print(struct tally *t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char line[256];
        int64_t o = atomic_load(&t[i].alloc_objects), b = atomic_load(&t[i].alloc_bytes);
        int length = snprintf(line, sizeof line, "%d %s %lld %lld %lld %lld\n", (int)getpid(), t[i].function,
                              (long long)o, (long long)b, (long long)(o - atomic_load(&t[i].free_objects)),
                              (long long)(b - atomic_load(&t[i].free_bytes)));
        if (write(STDOUT_FILENO, line, (size_t)length) != length)
            _exit(9);
    }
}

/* In a forked child: allocations before the fork belong to the parent; blocks in use are inherited. */
static inline void tally_forked(struct tally *t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        atomic_fetch_sub(&t[i].free_objects, atomic_load(&t[i].alloc_objects));
        atomic_fetch_sub(&t[i].free_bytes, atomic_load(&t[i].alloc_bytes));
        atomic_store(&t[i].alloc_objects, 0);
        atomic_store(&t[i].alloc_bytes, 0);
    }
}
