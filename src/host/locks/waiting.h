/* SPDX-License-Identifier: MIT */
/*
 * host/locks/waiting.h - the waits under way: a table with a slot for each thread that waits.
 *
 * The waiter fills its slot when its wait begins and clears it at the end. Reports read the table, and add what has
 * passed of a wait to the block profile; the waiter then adds only the rest. Context: hook; async-signal-safe.
 */
#pragma once

#include "host/locks/contended.h"
#include "host/table/table.h"
#include "host/locks/waiters.h"

#include <stdbool.h>
#include <stdint.h>

/* A slot's number + 1; 0: the wait is not in the table; UNLISTED: it is counted, but has no slot. */
typedef uint32_t dp_waiting_slot;
#define DP_WAITING_UNLISTED UINT32_MAX

/* -ENOMEM: waits under way are not seen. Context: init. */
int dp_waiting_init(void);

/*
 * The calling thread begins to wait. record: of its stack, in the block profile. frame: an address in the frame of the
 * function that waits, which tells a wait inside a signal handler from one that was abandoned. kind: maybe with SHARED.
 */
dp_waiting_slot dp_waiting_begin(const void *lock, unsigned kind, int64_t begin_ns, dp_record_id record,
                                 uintptr_t frame);

/*
 * The wait has a slot in the table of contended locks, and in its list of waiters, which it leaves if it is abandoned.
 * Not for waits that a runtime reports: of its coroutines, several may wait on one thread.
 */
void dp_waiting_entered(dp_waiting_slot slot, dp_contended_slot contended, dp_waiters_entry listed);

/* Whether the calling thread is in a wait already, which the frame at this address lies inside of. */
bool dp_waiting_is_inside(uintptr_t frame);

/*
 * The wait that began at begin_ns has ended. Returns the time up to which reports have counted it, begin_ns if they
 * have not; -1: a later wait of the thread has taken its slot. The caller reads the clock for the end of the wait after
 * this call, so that the end is not before that time.
 */
int64_t dp_waiting_end(dp_waiting_slot slot, int64_t begin_ns);

/*
 * fn is called at the end of each wait that has a slot, in the thread that waited, with the part of its time that
 * dp_waiting_collect has not collected. NULL: no function is called any more. Context: any thread.
 */
typedef void (*dp_waiting_listener_fn)(int32_t tid, dp_record_id record, int64_t ns);
void dp_waiting_listen(dp_waiting_listener_fn fn);

/* The calling thread ends. */
void dp_waiting_thread_ends(void);
void dp_waiting_fork_child(void);

/* ---- for reports ---- */

/* One wait, as it was a moment ago. */
struct dp_waiting {
    uintptr_t lock; /* 0: not known */
    int64_t begin_ns;
    dp_record_id record;
    int32_t tid;
    uint32_t slot;
    uint8_t kind;   /* enum deltaprof_lock_kind, without SHARED */
    bool is_shared; /* with SHARED */
};

/* Most slots; memory is charged for some at once. */
enum { DP_WAITING_SLOTS = 16384 };

/* How many threads wait that have no slot. */
unsigned dp_waiting_unlisted(void);

/* How many slots there may be; reads slot i. False: nothing waits there. */
unsigned dp_waiting_slots(void);
bool dp_waiting_read(unsigned i, struct dp_waiting *wait);
/* The same without a look whether the thread still lives. */
bool dp_waiting_peek(unsigned i, struct dp_waiting *wait);

/* The time of a wait under way up to now_ns that was not taken yet; 0 too if the wait is over. Async-signal-safe. */
int64_t dp_waiting_collect(const struct dp_waiting *wait, int64_t now_ns);

/* Adds to the block profile what has passed of each wait that is at least least_ns old. */
void dp_waiting_count(int64_t least_ns);
