/* SPDX-License-Identifier: MIT */
/*
 * host/wall/threads.h - the table of threads whose time is profiled, with an account of each: up to when its time is in
 * rows, and how the time since then is divided among states. Context: hook, unless stated otherwise.
 */
#pragma once

#include "host/locks/waiting.h"
#include "host/table/labels.h"
#include "host/thread/tids.h"

/* States of a thread. A record's labels have the state in the bits of the kind of lock. */
enum dp_wall_state {
    DP_WALL_NONE,
    DP_WALL_RUNNING,
    DP_WALL_RUNNABLE, /* in the queue of a processor */
    DP_WALL_LOCK,
    DP_WALL_IO,
    DP_WALL_SLEEP,
    DP_WALL_FAULT,     /* a page fault that waits for memory or a disk */
    DP_WALL_UNKNOWN,   /* off the processor; no look saw where */
    DP_WALL_LOCK_IDLE, /* lock, in a wait for work */
    DP_WALL_IO_IDLE,   /* io, in a wait for work */
    DP_WALL_STATES,
};

/* The value of the label `state`; NULL: no state. */
const char *dp_wall_state_name(unsigned state);

/* Whether it is the state of threads that wait for work. */
static inline bool dp_wall_state_is_idle(unsigned state)
{
    return state == DP_WALL_LOCK_IDLE || state == DP_WALL_IO_IDLE;
}

/* The state in the labels of a record. */
static inline enum dp_wall_state dp_wall_state_of(uint32_t labels)
{
    return (enum dp_wall_state)dp_labels_lock(labels);
}

/* A thread's place in the table, from 1 on; 0: none. */
typedef uint32_t dp_wall_slot;

enum { DP_WALL_THREADS = DP_TIDS_MAX, DP_WALL_WAITS = 8 };

/* The first cache line has all that a look needs of a thread that has not run since the last look. */
struct dp_wall_thread {
    _Alignas(64) _Atomic uint32_t busy; /* a thread has claimed the account */
    uint32_t next_look;                 /* number of the next look at it. This and the next two: under watch.c's lock */
    uint32_t n_still;                   /* looks in a row for which it had not run */
    uint32_t seen;                      /* number of the last list that had it */
    _Atomic uint32_t serial;            /* tells this thread from an earlier one in the same slot */
    _Atomic uint32_t ran;               /* the record of its last CPU sample; 0: none */
    _Atomic int64_t run_ns;             /* the part of its CPU clock that is in rows, or was before the profile */
    /* For the thread that has claimed the account: */
    int64_t clock_ns;       /* its CPU clock at until_ns */
    bool is_still;          /* at until_ns it was at `where` or in `wait` */
    uint32_t where;         /* the record of its last place off the processor; 0: none was seen */
    uint32_t labels;        /* with its name */
    int64_t until_ns;       /* its time up to here is in rows, except unplaced_ns */
    int64_t queue_ns;       /* its time in queues of processors that is in rows; -1: not known at until_ns */
    int64_t unplaced_ns;    /* time off the processor before until_ns that is in no row; below 0: rows have too much */
    struct dp_waiting wait; /* its wait for a lock that is under way; begin_ns 0: none */
    struct {                /* its ended waits for locks that are in no row yet, by block record + 1 */
        _Atomic uint32_t record;
        _Atomic int64_t ns;
    } waits[DP_WALL_WAITS];
};

/* A thread's clocks: the wall clock, its CPU time, its time in queues of processors. */
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

/* Adds a thread, whose profile begins now. 0: there is no room near its place, or it is in the table. */
dp_wall_slot dp_wall_thread_add(int32_t tid, const struct dp_wall_clocks *, bool is_own);
void dp_wall_thread_remove(dp_wall_slot slot, int32_t tid);
/* Whether the thread has closed its account a short time ago: until it is gone, /proc still lists it. */
bool dp_wall_thread_has_ended(int32_t tid);

/* Between claim and unclaim only the calling thread uses the account. False: another thread has claimed it for long. */
bool dp_wall_thread_claim(dp_wall_slot slot);
void dp_wall_thread_unclaim(dp_wall_slot slot);

/*
 * Reads a thread's clocks. begins: its profile begins, and the wall clock is read first; else it is read last. So the
 * thread's CPU time is never more than its life. clock_ns is negative if the thread is gone.
 */
struct dp_wall_clocks dp_wall_clocks_read(int32_t tid, bool begins);

/* A thread's time in queues of processors, from its file schedstat, which fd is open on. -1: not known. */
int64_t dp_wall_queue_ns(int fd);

/*
 * Divides the time since until_ns. The slot must be claimed. where: the record of the place where the thread is off the
 * processor now; 0: the place is not known, or the thread runs.
 */
enum dp_wall_account_end {
    DP_WALL_GOES_ON, /* time without a place waits for the next look */
    DP_WALL_REPORT,  /* time without a place goes to the last place; CPU time may wait for the next CPU sample */
    DP_WALL_ENDS,    /* all time goes to rows */
};
void dp_wall_account(dp_wall_slot slot, const struct dp_wall_clocks *, uint32_t where, enum dp_wall_account_end);

/* The record of a stack, or of a synthetic frame, in a state. 0: nothing can be recorded now, or there is no room. */
uint32_t dp_wall_record(uint32_t labels, enum dp_wall_state, const struct dp_stack *);
uint32_t dp_wall_record_synthetic(uint32_t labels, enum dp_wall_state, dp_frame_id frame);

/* Adds n samples and ns to a record. */
void dp_wall_record_add(uint32_t id, int64_t n, int64_t ns);

/* Moves run_ns on to clock_ns. Returns by how much: the caller adds that to a row; each nanosecond is returned once. */
int64_t dp_wall_thread_credit(dp_wall_slot slot, int64_t clock_ns);

/* Adds the calling thread, at its begin, and closes its account at its end. */
void dp_wall_thread_begins(void);

/* Before the first thread: maps the table, and makes the key whose destructor runs at the end of threads. Context: any
 * thread, not a hook. */
void dp_wall_threads_init(void);

/* Receives CPU samples and ended waits from their profiles, or no longer. */
void dp_wall_threads_listen(bool on);

/* In a forked child: empties the table. Only stores. */
void dp_wall_threads_fork_child(void);
