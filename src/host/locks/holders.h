/* SPDX-License-Identifier: MIT */
/*
 * host/locks/holders.h - lists the waits under way, finds the holders of locks, and finds deadlocks. Context: outside
 * hooks.
 */
#pragma once

#include "base/mem.h"
#include "host/locks/waiting.h"

#include <stdbool.h>

/* All waits under way. Zero: none. */
struct dp_waits {
    DP_VEC(struct dp_waiting) all; /* the longest first */
};

/* Reads all waits under way. Without memory some are left out. */
void dp_waits_read(struct dp_waits *);
void dp_waits_free(struct dp_waits *);

/* The wait of a thread; NULL: it does not wait. */
const struct dp_waiting *dp_waits_of(const struct dp_waits *, int32_t tid);

/* Whether it waits for a mutex or a rwlock of the C library at a known address: the lock itself tells its holder. */
bool dp_waits_is_for_holder(const struct dp_waiting *);

/* The same, or a mutex or a rwlock of another library: names of functions show the kind; the holder is not known. */
bool dp_waits_is_for_lock(const struct dp_waiting *);

struct dp_holder {
    int32_t tid;       /* the thread that holds the lock, or that a join waits for; 0: not known */
    bool ended;        /* that thread does not exist any more */
    bool is_elsewhere; /* it is a thread of another process */
    bool in_parent; /* it has not ended, but is of the process that forked this one: the child has its lock, locked */
    uint32_t n_readers;   /* how many threads hold the rwlock for reading; 0: none, or another kind of lock */
    int32_t ended_reader; /* one of them that has ended; 0: none is known */
    int32_t reader;       /* the one of them that is in the circle; 0: not known. dp_waits_holder does not fill it */
};
struct dp_holder dp_waits_holder(const struct dp_waiting *);

/*
 * Whether the thread is blocked in the kernel, in a futex call for this lock. False: it left the wait by longjmp, or it
 * runs at the moment. For a lock, true also if the kernel does not tell.
 */
bool dp_waits_is_blocked(const struct dp_waiting *);

/* Whether the wait has a time limit. Then the thread will wake, whoever holds the lock. False if that is not known. */
bool dp_waits_may_time_out(const struct dp_waiting *);

/* Whether this wait has not ended. */
bool dp_waits_goes_on(const struct dp_waiting *);

/*
 * Finds a deadlock: a circle of waits without a time limit from `first` on. Each thread waits for a lock that the next
 * thread holds, or for the end of the next thread; the last thread waits for the first one. Returns the number of
 * threads, and stores the waits of at most n; 0: there is no circle.
 */
enum { DP_WAITS_CIRCLE_MAX = 64 };
size_t dp_waits_circle(const struct dp_waits *, const struct dp_waiting *first, const struct dp_waiting **members,
                       size_t n);

/*
 * Finds the suspects of a wait for the readers of a rwlock, who are not known. A suspect is another thread that waits:
 * if it is a reader of that lock, the wait is a deadlock. It waits for a lock that the waiting thread holds, for a
 * thread that waits for such a lock, or for a rwlock whose readers are not known. Returns the number of suspects, and
 * stores the waits of at most n.
 */
size_t dp_waits_suspects(const struct dp_waits *, const struct dp_waiting *for_readers,
                         const struct dp_waiting **suspects, size_t n);

/* The name of the kind of lock, as in profiles: "mutex", "rwlock-read", ... */
const char *dp_waits_kind_name(const struct dp_waiting *);
