/* SPDX-License-Identifier: MIT */
/*
 * host/locks/wait_event.h - the state of a wait, the rates, and the common steps of lock events, for the hooks of locks
 * (wait.c) and of futexes (futex.c).
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
    dp_record_id record; /* with the waiter's stack; 0: none (only for a lock) */
    uint32_t epoch;
    uint8_t kind;   /* 0: no event */
    uint8_t blamed; /* the wait is part of the mutex profile, too */
    uint16_t class; /* of a futex: futex_class.h */
    dp_waiters_entry listed;
    uint8_t n;              /* how many waits it counts as; 0: it is not sampled */
    uint8_t may_be_foreign; /* of a robust mutex: another process may hold it */
};
_Static_assert(sizeof(struct dp_wait) <= sizeof(struct deltaprof_wait), "wait");

/* 0: off. Relaxed, each read once per event: they order nothing. */
extern struct dp_wait_rates {
    _Atomic int64_t mutex, block_ns;
} dp_wait_rates;

/* Records n unlocks. *id: the record in the mutex profile. False: there is none, as for dp_record_find. */
static inline bool dp_wait_event_record_unlock(uint32_t labels, const struct dp_stack *stack, int64_t n,
                                               int64_t delay_ns, dp_record_id *id)
{
    if (!dp_record_add(DP_KIND_MUTEX, 0, labels, stack, n, delay_ns, id))
        return false;
    dp_events_add(DP_KIND_MUTEX, *id, n, delay_ns, 0, n ? delay_ns / n : delay_ns);
    return true;
}

/*
 * Decides what an unlock that paid owed_ns is recorded as: n unlocks with the sum delay_ns. False: it is not recorded;
 * others count for it. is_gil: it is of an interpreter's lock. wait.c explains the rates.
 */
struct dp_wait_share {
    int64_t n, delay_ns, owed_ns;
};
bool dp_wait_event_share(int64_t owed_ns, bool is_gil, struct dp_wait_share *share);

/* The part of share->delay_ns that belongs to part_ns of owed_ns. */
static inline int64_t dp_wait_share_of(const struct dp_wait_share *share, int64_t part_ns)
{
    return (int64_t)((__int128)share->delay_ns * part_ns / share->owed_ns);
}

/*
 * Records waiting time without a holder's stack on a synthetic frame, in the mutex profile and as a chain. waiter: the
 * record of the wait, or DP_CHAIN_UNKNOWN.
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
 * Adds the time of a wait that has ended to its record in the block profile. counted_ns: as of dp_waiting_end. paid_ns:
 * of a cancelled wait, the time that holders paid; it is added with a count of 0.
 */
void dp_wait_event_count(const struct dp_wait *wait, enum deltaprof_lock_end end, int64_t counted_ns, int64_t end_ns,
                         int64_t paid_ns);
