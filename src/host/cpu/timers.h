/* SPDX-License-Identifier: MIT */
/*
 * host/cpu/timers.h - the threads whose CPU time is profiled: each has a CPU clock that is read, the part of it that
 * rows have, and, if it can have one, a timer on that clock. Context: hook, unless stated otherwise.
 */
#pragma once

#include "host/thread/tids.h"
#include "host/unwind/stack.h"

#include <stdbool.h>
#include <stdint.h>

/* A thread's number in the table, from 1 on; 0: none. Valid until the thread has left the kernel. */
typedef uint32_t dp_cpu_slot;

enum { DP_CPU_THREADS = DP_TIDS_MAX };

struct dp_cpu_thread {
    _Atomic int64_t credited_ns; /* of its CPU clock: the part that rows have, or that came before the profile */
    _Atomic int32_t timer;       /* 1 + the kernel's id of its timer; 0: none */
    _Atomic uint32_t serial;     /* tells this thread from an earlier one in the same slot */
    _Atomic uint8_t no_stack;   /* not 0: the synthetic frame of its time up to the next sample, [masked] for example */
    _Atomic uint8_t is_ours;    /* a thread of the profiler */
    _Atomic uint8_t is_untimed; /* no timer could be had for it, and that was counted */
    _Atomic uint8_t has_ended;  /* its end was seen; it may still be in the kernel, and in lists of threads */
    _Atomic uint8_t is_sampled; /* its handler runs, which blocks the signal [SAMPLED] */
    uint16_t seen;              /* the last scan that met it; only the scanning thread uses it */
};

/*
 * Another profile of the same threads: is told of each stretch of CPU time that a row gets, which ends at clock_ns of
 * the thread's CPU clock, with its labels and stack. n: samples. Called by the thread, also in a signal handler, or by
 * a report.
 */
typedef void (*dp_cpu_listener_fn)(int32_t tid, int64_t clock_ns, uint32_t labels, const struct dp_stack *, int64_t n);

/* Relaxed, unless stated otherwise. */
extern struct dp_cpu_state {
    _Atomic int64_t period_ns;   /* CPU time between samples; 0: off */
    _Atomic int64_t credited_ns; /* the sum of what rows got since the profile began */
    _Atomic int32_t room;        /* timers that may still be created */
    _Atomic int32_t n_timers;
    _Atomic int32_t n_threads;            /* in the table */
    _Atomic(dp_cpu_listener_fn) listener; /* NULL: none */
    _Atomic int sig;                      /* the signal of the timers; 0: there are none, only clocks are read */
} dp_cpu_state DP_INTERNAL;

static inline bool dp_cpu_is_on(void)
{
    return __builtin_expect(dp_load_relaxed(&dp_cpu_state.period_ns) != 0, 0);
}

static inline void dp_cpu_tell(int32_t tid, int64_t clock_ns, uint32_t labels, const struct dp_stack *stack, int64_t n)
{
    dp_cpu_listener_fn fn = dp_load_relaxed(&dp_cpu_state.listener);
    if (fn)
        fn(tid, clock_ns, labels, stack, n);
}

struct dp_cpu_thread *dp_cpu_thread_at(dp_cpu_slot slot);
int32_t dp_cpu_thread_tid(dp_cpu_slot slot); /* 0: the slot is free */

/*
 * The slot of a thread; add makes it. 0: the table is full there, or another thread is making it. is_own: it is the
 * calling thread's; 0 then means that it is there or that the table is full.
 */
dp_cpu_slot dp_cpu_thread_find(int32_t tid);
dp_cpu_slot dp_cpu_thread_add(int32_t tid, int64_t credited_ns, bool is_own);

/* Deletes the timer, and frees the slot. For a thread that has left the kernel, or if the profile is off. */
void dp_cpu_thread_remove(dp_cpu_slot slot, int32_t tid);

/*
 * The thread in the slot is a new one: it has the id of an earlier one, whose credit was credited_ns. False: another
 * thread has found that too, or the credit has changed.
 */
bool dp_cpu_thread_renew(dp_cpu_slot slot, int64_t credited_ns);

void dp_cpu_thread_disarm(dp_cpu_slot slot);

/* The same for a thread that has no timer; counts it if it can have none. */
void dp_cpu_thread_time(dp_cpu_slot slot);

/* The CPU clock of a thread of this process; -EINVAL: it has ended. The second is that of the calling thread. */
int64_t dp_cpu_clock_ns(int32_t tid);
int64_t dp_cpu_own_clock_ns(void);
int64_t dp_cpu_process_clock_ns(void);

/*
 * Moves credited_ns on to now_ns. Returns by how much: the caller adds that to a row. 0: it was there already. Several
 * threads may call it; each nanosecond is returned once.
 */
int64_t dp_cpu_thread_credit(dp_cpu_slot slot, int64_t now_ns);

/* The synthetic frame for time of a thread that no sample stands for. */
uint32_t dp_cpu_rest_of(dp_cpu_slot slot);

/*
 * Adds time to the row of a synthetic frame. tid, clock_ns: for the listener; tid 0: time of no known thread. False:
 * nothing can be recorded now; pass the time on later.
 */
bool dp_cpu_add_synthetic(uint32_t frame, uint32_t labels, int64_t ns, int32_t tid, int64_t clock_ns);

/* The value of a timer's signal tells the slot, and that it is one of these timers. */
uint64_t dp_cpu_value_of(dp_cpu_slot slot, uint32_t serial);
bool dp_cpu_value_read(uint64_t value, dp_cpu_slot *slot, uint32_t *serial);

/*
 * The calling thread begins: gets its timer, and at its end the rest of its clock goes to a row. Context: the thread,
 * before the program's function runs.
 */
void dp_cpu_thread_begins(void);

/* Once, before the first thread: makes the key whose destructor sees threads end. Context: any thread, not a hook. */
void dp_cpu_threads_init(void);

/* In a forked child: no thread is known, no timer exists. Only stores. */
void dp_cpu_threads_fork_child(void);
