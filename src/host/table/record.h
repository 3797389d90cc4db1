/* SPDX-License-Identifier: MIT */
/*
 * host/table/record.h - the record store: one call adds an event of any kind to the record of its stack.
 */
#pragma once

#include "host/shared/shared.h"
#include "host/table/table.h"
#include "host/thread/thread.h"

#include <deltaprof/deltaprof.h>

enum { DP_ZERO_OWN, DP_ZERO_WANTED, DP_ZERO_COPYING };

/*
 * Lets hooks use the tables, which must all be mapped. A forked child calls at_zero when it has copied its zero. If
 * files are wanted, the first event makes one. Context: init.
 */
void dp_record_open(void (*at_zero)(void));
static inline bool dp_record_is_ready(void)
{
    return dp_load_acquire(&dp_shared_own.ready); /* [READY]: a thread that sees 1 finds every table */
}

/* The fork count: 0 in the process that started the profiler; a child has its parent's + 1. */
static inline uint32_t dp_record_epoch(void)
{
    return dp_load_relaxed(&dp_shared_own.epoch);
}

/* Whether a free must be passed on to more than its record, or may not be counted. */
static inline bool dp_record_is_marked(void)
{
    return __builtin_expect(dp_load_relaxed(&dp_shared_own.plain) == 0, 0);
}
void dp_record_mark(void);

/*
 * Of a free that is marked: false in a child that no fork handler saw, and where there was no memory for a child's
 * tables. The counters are the parent's there. Context: hook.
 */
bool dp_record_may_free(void);

/*
 * In a forked child's atfork handler: requests the copy of its zero (the counters at the fork). Only stores. Returns
 * the new epoch.
 */
uint32_t dp_record_fork_begin(void);

/*
 * In a forked child the first event or report copies its zero. False: another thread is copying; call again before
 * reading counters.
 */
bool dp_record_fork_copy_zero_slow(void);
static inline bool dp_record_fork_copy_zero(void)
{
    return __builtin_expect(dp_load_acquire(&dp_shared_own.zero) == DP_ZERO_OWN, 1) /* [ZERO] */ ||
           dp_record_fork_copy_zero_slow();
}

/* Yields until the zero is copied. False: it took too long; the event is lost, and counted as lost. */
bool dp_record_fork_wait(void) __attribute__((cold));

/* Whether rows may be added, for what happens once, such as a thread's end. Waits as above; not for signal handlers. */
static inline bool dp_record_wait_ready(void)
{
    return dp_record_is_ready() && (dp_record_fork_copy_zero() || dp_record_fork_wait());
}

/*
 * The zero of a record, for readers: 0 in a process that was not forked, and for a record that is newer than the fork.
 */
void dp_record_fork_base(unsigned kind, dp_record_id id, int64_t *n, int64_t *v);

/* Adds an event to a record that is there. */
static inline void dp_record_count(unsigned kind, dp_record_id id, int64_t n, int64_t v)
{
    dp_table_add(kind, id, n, v);
    dp_tally_add(DP_TALLY_SAMPLES, dp_thread_shard(dp_thread_self()), 1);
}

/* The record of this stack, made if it is new, without an event. False as of dp_record_add. Context: the same. */
static inline bool dp_record_intern(unsigned kind, uint32_t labels, const struct dp_stack *stack, dp_record_id *id)
{
    if (!dp_record_is_ready() || !dp_record_fork_copy_zero())
        return false;
    *id = dp_table_intern(kind, 0, labels, stack);
    return true;
}

/*
 * The record of this stack, for an event: makes it if it is new. False: nothing may be recorded (the tables are not
 * mapped yet, or a forked child is copying its zero). Context: hook, with the countdown guarded.
 */
static inline bool dp_record_find(unsigned kind, uint8_t heap, uint32_t labels, const struct dp_stack *stack,
                                  dp_record_id *id)
{
    if (!dp_record_is_ready())
        return false;
    if (__builtin_expect(!dp_record_fork_copy_zero(), 0) && !dp_record_fork_wait())
        return false;
    *id = dp_table_intern(kind, heap, labels, stack);
    return true;
}

/* Adds (n, v) to it. False as of dp_record_find. Context: the same. */
static inline bool dp_record_add(unsigned kind, uint8_t heap, uint32_t labels, const struct dp_stack *stack, int64_t n,
                                 int64_t v, dp_record_id *id)
{
    if (!dp_record_find(kind, heap, labels, stack, id))
        return false;
    dp_record_count(kind, *id, n, v);
    return true;
}

/* In a process that has copied the tables of another one: the fork count of that one. */
void dp_record_adopt(uint32_t epoch);

/*
 * Fills in the counters of the tables: samples, records, live and the losses; other fields of *stats are not changed.
 */
void dp_record_stats(struct deltaprof_stats *stats);
