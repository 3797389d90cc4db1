/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/record/contended_steps.h - contended.c in steps: the atomics and the clock that it is compiled with here
 * hand control to a scheduler before each of them. Threads are coroutines; a hash of what each has read stands for its
 * registers.
 */
#pragma once

#include "base/atomic.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"

#include <stdbool.h>

/* ---- threads, scheduler, memory seen ---------------------------------------------------------------------------- */

#define THREADS 3

static enum { NONE, BLIND_CAS, TORN_ADD, FORGOTTEN_CAS, LOST_SLOT, LOST_SUM, UNPINNED } mutant;

/* Control passes by _longjmp, which unlike swapcontext makes no system call. */
static jmp_buf scheduler, context[THREADS];
static char stacks[THREADS][16384];
static struct {
    uint64_t read; /* hash of what it has read since its operation began */
    int at;        /* operation */
    int steps;     /* in it */
    int blocked;   /* waits for the lock to be free */
    int timed;     /* ... and may give up */
    int gave_up;
    int ended;
    int sleeps; /* goes on when the others wait */
} thread[THREADS];
static int running;

static void step(void)
{
    thread[running].steps++;
    if (!_setjmp(context[running]))
        _longjmp(scheduler, 1);
}

static void resume(int t)
{
    running = t;
    if (!_setjmp(scheduler))
        _longjmp(context[t], 1);
}

/* A step only where a scenario asks for it: else a slot's sum of what is open moves with its word. */
static bool sums_are_steps;
static void step_of_sum(void)
{
    if (sums_are_steps)
        step();
}
#define is_sum(p)  _Generic((p), _Atomic int64_t * : true, default : false)
#define step_at(p) (is_sum(p) ? step_of_sum() : step_on((const void *)(p)))

/* A model may name memory that nothing changes: no step there. */
static bool (*is_still)(const void *p);
static void step_on(const void *p)
{
    if (!is_still || !is_still(p))
        step();
}

static uint64_t seen(uint64_t value)
{
    thread[running].read = dp_hash_mix(thread[running].read * 31 + value + 1);
    return value;
}

/* ---- contended.c on these atomics ------------------------------------------------------------------------------- */

#undef dp_load_relaxed
#undef dp_store_relaxed
#undef dp_add_relaxed
#undef dp_sub_relaxed
#undef dp_cas_relaxed
#undef dp_load_acquire
#undef dp_store_release
#undef dp_add_release
#undef dp_sub_release
#undef dp_cas_acquire
#define dp_load_relaxed(p)     (step_on((const void *)(p)), (__typeof__(*(p) + 0))seen(atomic_load(p)))
#define dp_store_relaxed(p, v) (step_on((const void *)(p)), atomic_store((p), (v)))
#define dp_add_relaxed(p, v)   add((p), (v))
#define dp_sub_relaxed(p, v)   add((p), -(v))
#define dp_load_acquire(p)     dp_load_relaxed(p)
#define dp_store_release(p, v) dp_store_relaxed(p, mutant == UNPINNED ? (v)&KEY_MASK : (v))
#define dp_add_release(p, v)   add((p), (v))
#define dp_sub_release(p, v)   add((p), mutant == UNPINNED ? 0 : -(v))
#define add(p, v)                              \
    __extension__({                            \
        step_at(p);                            \
        __typeof__(*(p) + 0) old_;             \
        if (mutant == LOST_SUM && is_sum(p)) { \
            old_ = 0;                          \
        } else if (mutant == TORN_ADD) {       \
            old_ = atomic_load(p);             \
            seen(old_);                        \
            step();                            \
            atomic_store((p), old_ + (v));     \
        } else {                               \
            old_ = atomic_fetch_add((p), (v)); \
            seen(old_);                        \
        }                                      \
        old_;                                  \
    })
#define dp_cas_relaxed(p, expected, v)                                     \
    __extension__({                                                        \
        step_at(p);                                                        \
        bool done_ = mutant == BLIND_CAS || atomic_load(p) == *(expected); \
        if (done_ && mutant != FORGOTTEN_CAS)                              \
            atomic_store((p), (v));                                        \
        else if (!done_)                                                   \
            *(expected) = atomic_load(p);                                  \
        seen(done_ ? 1 : *(expected));                                     \
        done_;                                                             \
    })

/* Of keys: a pin or a claim. */
#define dp_cas_acquire(p, expected, v) \
    dp_cas_relaxed((p), (expected), mutant == UNPINNED && (v) == *(expected) + PIN ? *(expected) : (v))

static int n_clock;
static int64_t slept_ns;
static int64_t model_clock(void)
{
    step();
    n_clock++;
    return slept_ns + (int64_t)seen((uint64_t)n_clock * n_clock * 1000 + dp_hash_mix((uint64_t)n_clock) % 997);
}
#define dp_clock_ns model_clock

#include "host/locks/contended.c"
