/* SPDX-License-Identifier: MIT */
/*
 * host/locks/wait_event.h - what the recording of locks (wait.c) and of futexes (futex.c) share: the state of a wait,
 * the rates, and the steps that every lock event takes.
 */
#pragma once

#include "base/atomic.h"
#include "host/locks/chain.h"
#include "host/locks/contended.h"
#include "host/table/event_ring.h"
#include "host/table/record.h"
#include "host/thread/thread.h"
#include "host/locks/waiters.h"
#include "host/locks/waiting.h"

#include <deltaprof/locks.h>

/* The content of struct deltaprof_wait. */
struct __attribute__((may_alias)) dp_wait {
    int64_t begin_ns;
    dp_contended_slot slot;
    dp_waiting_slot waiting;
    dp_record_id record; /* of the waiter's stack, if waiting is not 0; of a futex: always */
    uint32_t epoch;
    uint8_t kind;   /* 0: no event */
    uint8_t blamed; /* counts in the mutex profile too */
    uint16_t class; /* of a futex: futex_class.h */
    dp_waiters_entry listed;
    uint8_t n;              /* the waits that it stands for; 0: others stand for it */
    uint8_t may_be_foreign; /* of a robust mutex: another process may hold it */
};
_Static_assert(sizeof(struct dp_wait) <= sizeof(struct deltaprof_wait), "wait");

/* 0: off. Relaxed, each read once per event: they order nothing. */
extern struct dp_wait_rates {
    _Atomic int64_t mutex, block_ns;
} dp_wait_rates;

/* Records an unlock; *id: its record in the mutex profile. False as of dp_record_find. */
static inline bool dp_wait_event_record_unlock(uint32_t labels, const struct dp_stack *stack, int64_t n,
                                               int64_t delay_ns, dp_record_id *id)
{
    if (!dp_record_add(DP_KIND_MUTEX, 0, labels, stack, n, delay_ns, id))
        return false;
    dp_events_add(DP_KIND_MUTEX, *id, n, delay_ns, 0, n ? delay_ns / n : delay_ns);
    return true;
}

/*
 * What an unlock that owes owed_ns is recorded as: n unlocks with delay_ns together. False: it is not recorded;
 * others are counted n-fold. is_gil: it is of an interpreter's lock. Rates as of wait.c.
 */
struct dp_wait_share {
    int64_t n, delay_ns, owed_ns;
};
bool dp_wait_event_share(int64_t owed_ns, bool is_gil, struct dp_wait_share *share);

/* The part of share->delay_ns for the part_ns of owed_ns. */
static inline int64_t dp_wait_share_of(const struct dp_wait_share *share, int64_t part_ns)
{
    return (int64_t)((__int128)share->delay_ns * part_ns / share->owed_ns);
}

/*
 * Records waiting time without a holder's stack, in the mutex profile and as a chain. waiter: the record of the wait
 * that ended so, or DP_CHAIN_UNKNOWN.
 */
static inline void dp_wait_event_record_synthetic(dp_frame_id frame, uint32_t labels, int64_t delay_ns,
                                                  dp_record_id waiter)
{
    struct dp_stack stack = {.hash = dp_stack_hash(&frame, 1), .depth = 1, .frames = &frame};
    struct dp_thread_event event = dp_thread_event_begin();
    dp_record_id id;
    if (dp_wait_event_record_unlock(labels, &stack, 1, delay_ns, &id))
        dp_chain_add(waiter, id, 1, delay_ns);
    dp_thread_event_end(event);
}

/*
 * Counts the end of a wait in the block profile, by its record. counted_ns: as of dp_waiting_end. paid_ns: what holders
 * paid for a wait that was cancelled; it is added without a contention.
 */
void dp_wait_event_count(const struct dp_wait *wait, enum deltaprof_lock_end end, int64_t counted_ns, int64_t end_ns,
                         int64_t paid_ns);
