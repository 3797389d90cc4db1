/* SPDX-License-Identifier: MIT */
/*
 * host/wall/threads.h - the threads whose life is profiled, and the account of each: up to when its life is in rows,
 * and how what passed since is divided among states. Context: hook, unless stated otherwise.
 */
#pragma once

#include "host/locks/waiting.h"
#include "host/table/labels.h"
#include "host/thread/tids.h"

/* States, in the place of a lock's kind in the labels of a record. */
enum dp_wall_state {
    DP_WALL_NONE,
    DP_WALL_RUNNING,
    DP_WALL_RUNNABLE, /* in the queue of a processor */
    DP_WALL_LOCK,
    DP_WALL_IO,
    DP_WALL_SLEEP,
    DP_WALL_FAULT,     /* a page fault that waits for memory or a disk */
    DP_WALL_UNKNOWN,   /* off the processor; nobody saw where */
    DP_WALL_LOCK_IDLE, /* lock and io, as threads wait for work to come */
    DP_WALL_IO_IDLE,
    DP_WALL_STATES,
};

/* The name of a state, for the label; NULL: no state. */
const char *dp_wall_state_name(unsigned state);

/* Whether threads that wait for work are in it. */
static inline bool dp_wall_state_is_idle(unsigned state)
{
    return state == DP_WALL_LOCK_IDLE || state == DP_WALL_IO_IDLE;
}

/* The state in the labels of a record. */
static inline enum dp_wall_state dp_wall_state_of(uint32_t labels)
{
    return (enum dp_wall_state)dp_labels_lock(labels);
}

/* A thread's number in the table, from 1 on; 0: none. */
typedef uint32_t dp_wall_slot;

enum { DP_WALL_THREADS = DP_TIDS_MAX, DP_WALL_WAITS = 8 };

/* The first line of memory has all that a look needs of a thread that stands where it stood. */
struct dp_wall_thread {
    _Alignas(64) _Atomic uint32_t busy; /* a thread works on the account: see claim */
    uint32_t next_look;                 /* this and the next two: of the thread that looks alone, under its lock */
    uint32_t still;                     /* looks in a row that found it standing */
    uint32_t seen;                      /* the last list that had it */
    _Atomic uint32_t serial;            /* tells this thread from an earlier one in the same slot */
    _Atomic uint32_t ran;               /* the record of its last CPU sample; 0: none */
    _Atomic int64_t run_ns;             /* of its CPU clock: the part that rows have, or that came before the profile */
    /* While busy: */
    int64_t clock_ns;       /* its CPU clock at until_ns */
    bool stands;            /* it was there at until_ns and has not run since, as far as is known */
    uint32_t where;         /* the record of where it was seen off the processor last; 0: it was not */
    uint32_t labels;        /* with its name */
    int64_t until_ns;       /* up to then its life is in rows, but for owed_ns */
    int64_t queue_ns;       /* its time in queues of processors that is in rows; -1: not known at until_ns */
    int64_t owed_ns;        /* time off the processor before until_ns; below 0: rows have too much */
    struct dp_waiting wait; /* for a lock, under way; begin_ns 0: none */
    struct {                /* waits for locks that ended and are in no row, by block record + 1 */
        _Atomic uint32_t record;
        _Atomic int64_t ns;
    } waits[DP_WALL_WAITS];
};

/* What a thread's clocks say now. */
struct dp_wall_clocks {
    int64_t now_ns, clock_ns, queue_ns;
};

extern struct dp_wall_state_now {
    _Atomic int64_t period_ns; /* time between looks; 0: off */
} dp_wall_now DP_INTERNAL;

static inline bool dp_wall_is_on(void)
{
    return __builtin_expect(dp_load_relaxed(&dp_wall_now.period_ns) != 0, 0);
}

struct dp_wall_thread *dp_wall_thread_at(dp_wall_slot slot);
int32_t dp_wall_thread_tid(dp_wall_slot slot); /* 0 or less: the slot is free */
dp_wall_slot dp_wall_thread_find(int32_t tid);

/* A thread whose profile begins now. 0: the table is full there, or it is known. */
dp_wall_slot dp_wall_thread_add(int32_t tid, const struct dp_wall_clocks *);
void dp_wall_thread_remove(dp_wall_slot slot);
/* Whether the thread has closed its account not long ago: it may still be listed while it leaves the kernel. */
bool dp_wall_thread_has_ended(int32_t tid);

/* Between claim and unclaim the calling thread alone works on the account. False: another thread does, for too long. */
bool dp_wall_thread_claim(dp_wall_slot slot);
void dp_wall_thread_unclaim(dp_wall_slot slot);

/*
 * Reads a thread's clocks, the one on the wall first where its profile begins and last where it ends: so what it runs
 * in between is never more than its life. clock_ns is negative if the thread is gone.
 */
struct dp_wall_clocks dp_wall_clocks_read(int32_t tid, bool begins);

/* Time in queues of processors, which the kernel tells of a thread; fd: of its schedstat. -1: not known. */
int64_t dp_wall_queue_ns(int fd);
int64_t dp_wall_queue_of(int32_t tid);

/*
 * Divides the time since until_ns; the slot is claimed. where: the record of the place where the thread is off the
 * processor now; 0: it is not known, or it runs.
 */
enum dp_wall_account_end {
    DP_WALL_GOES_ON, /* time without a place waits for the next look */
    DP_WALL_REPORT,  /* such time goes to the place that was seen last; CPU time may wait for the next sample */
    DP_WALL_ENDS,    /* nothing waits */
};
void dp_wall_account(dp_wall_slot slot, const struct dp_wall_clocks *, uint32_t where, enum dp_wall_account_end);

/* The record of a stack in a state; of a synthetic frame. 0: nothing can be recorded now, or there is no room. */
uint32_t dp_wall_record(uint32_t labels, enum dp_wall_state, const struct dp_stack *);
uint32_t dp_wall_record_synthetic(uint32_t labels, enum dp_wall_state, dp_frame_id frame);

/* Adds to a record's row. */
void dp_wall_record_add(uint32_t id, int64_t n, int64_t ns);

/* Moves run_ns on to clock_ns. Returns by how much: the caller adds that to a row; each nanosecond is returned once. */
int64_t dp_wall_thread_run(dp_wall_slot slot, int64_t clock_ns);

/* The calling thread begins; at its end its account is closed. */
void dp_wall_thread_begins(void);

/* Once, before the first thread: makes the key whose destructor sees threads end. Context: any thread, not a hook. */
void dp_wall_threads_init(void);

/* Listens to the profiles of CPU time and of waits, or no more. */
void dp_wall_threads_listen(bool on);

/* In a forked child: no thread is known. Only stores. */
void dp_wall_threads_fork_child(void);
