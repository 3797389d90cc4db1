/* SPDX-License-Identifier: MIT */
/*
 * host/locks/waiting.h - a table of the waits under way, with a slot for each thread that waits.
 *
 * The waiter fills its slot when its wait begins and clears it at the end. Reports read the table and add the time so
 * far to the block profile; the waiter then adds only the rest. Context: hook; async-signal-safe.
 */
#pragma once

#include "host/locks/contended.h"
#include "host/table/table.h"
#include "host/locks/waiters.h"

#include <stdbool.h>
#include <stdint.h>

/* 1 + the number of a slot; 0: the wait is not in the table. UNLISTED: no slot was free; the thread is counted. */
typedef uint32_t dp_waiting_slot;
#define DP_WAITING_UNLISTED UINT32_MAX

/* Maps the table, which other processes may read. Without it reports see no waits under way. Context: init. */
int dp_waiting_share(void);
void dp_waiting_init(void);

/*
 * The calling thread begins to wait. kind: enum deltaprof_lock_kind, possibly with SHARED. record: of its stack, in the
 * block profile. frame: an address in the stack frame of the waiting function. By it, a wait in a signal handler,
 * during an earlier wait, is told from a wait after an earlier one was abandoned (by longjmp).
 */
dp_waiting_slot dp_waiting_begin(const void *lock, unsigned kind, int64_t begin_ns, dp_record_id record,
                                 uintptr_t frame);

/*
 * Stores the wait's slot in contended.h and its entry in waiters.h. If the wait is abandoned, it is removed from both.
 * Not for waits that a runtime reports: several of its coroutines may wait on one thread.
 */
void dp_waiting_entered(dp_waiting_slot slot, dp_contended_slot contended, dp_waiters_entry listed);

/* Whether the calling thread is in a wait that contains the stack frame at this address. */
bool dp_waiting_is_inside(uintptr_t frame);

/*
 * The wait that began at begin_ns has ended. Returns the time up to which reports have counted it; begin_ns: they have
 * not; -1: a later wait of the thread uses the slot. The caller reads the end time of the wait after this call, so that
 * it is not before the returned time.
 */
int64_t dp_waiting_end(dp_waiting_slot slot, int64_t begin_ns);

/*
 * fn will be called at the end of each wait that has a slot, by the thread that waited, with the part of its time that
 * dp_waiting_collect has not returned. NULL: none. Context: any thread.
 */
typedef void (*dp_waiting_listener_fn)(int32_t tid, dp_record_id record, int64_t ns);
void dp_waiting_listen(dp_waiting_listener_fn fn);

/* The lock that the calling thread last waited for in this slot; 0: not known. */
uintptr_t dp_waiting_lock(dp_waiting_slot slot);

/* The calling thread ends: frees its slot. */
void dp_waiting_thread_ends(void);
/* In a forked child: clears the table. */
void dp_waiting_fork_child(void);

/* ---- for reports ---- */

/*
 * In a process that has copied the tables of another one: takes n copied slots, except those of waits without one of
 * the n_records of the block profile. is_named: whether a wait under way has this record. copy reads slot i again, to
 * see whether its wait goes on.
 */
void dp_waiting_adopt(uint32_t n, uint32_t n_records, void (*copy)(uint32_t i));
bool dp_waiting_is_named(dp_record_id record);

enum { DP_WAITING_READS = 2 };

/* A copy of a wait under way. */
struct dp_waiting {
    uintptr_t lock; /* 0: not known */
    int64_t begin_ns;
    dp_record_id record;
    int32_t tid;
    uint32_t slot;
    uint8_t kind;   /* enum deltaprof_lock_kind, without SHARED */
    bool is_shared; /* with SHARED */
    uintptr_t
        reads[DP_WAITING_READS]; /* rwlocks that the thread holds for reading, as far as they are known; 0: none */
};

/* The most slots that there can be. */
enum { DP_WAITING_SLOTS = 8192 };

/* How many threads wait without a slot. */
unsigned dp_waiting_unlisted(void);

/* The number of slots that were ever used. */
unsigned dp_waiting_slots(void);
/* Reads slot i. False: no thread waits there. */
bool dp_waiting_read(unsigned i, struct dp_waiting *wait);
/* The same without a check that the thread still lives; and once more, some time later. */
bool dp_waiting_peek(unsigned i, struct dp_waiting *wait);
bool dp_waiting_peek_again(unsigned i, struct dp_waiting *wait);

/* Returns the time of a wait up to now_ns that no earlier call has returned; 0: the wait is over. Async-signal-safe. */
int64_t dp_waiting_collect(const struct dp_waiting *wait, int64_t now_ns);

/*
 * Adds the time so far of each wait of at least least_ns to the block profile; end_ns: up to then, if it is not 0.
 * Frees the slots of ended threads.
 */
void dp_waiting_count(int64_t least_ns, int64_t end_ns);
