/* SPDX-License-Identifier: MIT */
/*
 * host/locks/holders.h - the waits under way, which thread holds each lock, and threads that wait for each other.
 * Context: outside hooks.
 */
#pragma once

#include "base/mem.h"
#include "host/locks/waiting.h"

#include <stdbool.h>

/* Zero: none. */
struct dp_waits {
    DP_VEC(struct dp_waiting) all; /* the longest first */
};

/* Reads all waits under way. Those for which there is no memory are left out. */
void dp_waits_read(struct dp_waits *);
void dp_waits_free(struct dp_waits *);

/* The wait of a thread; NULL: it does not wait. */
const struct dp_waiting *dp_waits_of(const struct dp_waits *, int32_t tid);

/* Whether the lock has a holder: a mutex, or a rwlock. */
bool dp_waits_is_for_holder(const struct dp_waiting *);

/* The same, or a mutex or a rwlock of another library, which is known by its functions' names and not its holder. */
bool dp_waits_is_for_lock(const struct dp_waiting *);

struct dp_holder {
    int32_t tid;        /* the thread that holds the lock, or whose end a join waits for; 0: not known */
    bool ended;         /* that thread does not exist any more */
    bool is_elsewhere;  /* it is a thread of another process */
    uint32_t n_readers; /* of a rwlock that is held for reading */
};
struct dp_holder dp_waits_holder(const struct dp_waiting *);

/*
 * Whether the thread is blocked in the kernel, waiting for this lock. False: it has left the wait (by longjmp), or it
 * runs at the moment. True also if the kernel does not tell.
 */
bool dp_waits_is_blocked(const struct dp_waiting *);

/* Whether the same wait still goes on. */
bool dp_waits_goes_on(const struct dp_waiting *);

/*
 * Finds the circle of threads that wait for each other, beginning at first. Each of them waits for a lock that the next
 * one holds, or for its end; the last one waits for the first. Returns the number of threads, of which at most n are
 * stored; 0: there is no circle.
 */
enum { DP_WAITS_CIRCLE_MAX = 64 };
size_t dp_waits_circle(const struct dp_waits *, const struct dp_waiting *first, const struct dp_waiting **members,
                       size_t n);

/*
 * A thread waits for the readers of a rwlock, and these are not known. Finds the suspects: threads that would make this
 * wait a deadlock if they were readers of that lock. A suspect waits for a lock of the waiting thread, or for a thread
 * that does, or for a lock whose readers are not known either. The waiting thread itself is no suspect. Returns their
 * number, of which at most n are stored.
 */
size_t dp_waits_suspects(const struct dp_waits *, const struct dp_waiting *for_readers,
                         const struct dp_waiting **suspects, size_t n);

/* mutex, rwlock-read ... */
const char *dp_waits_kind_name(const struct dp_waiting *);
