/* SPDX-License-Identifier: MIT */
/*
 * host/locks/waiting.c - slots that their threads fill and reports read. Other processes can read them, too
 * (host/shared/shared.h).
 *
 * A thread claims a slot at its first wait and keeps it until its end, so that a wait costs a few stores. begin_ns
 * names the wait in the slot, 0: none. counted_ns says up to when the block profile has the wait, at first begin_ns.
 *
 *     waiter     fills the slot, then counted_ns = begin_ns, then begin_ns        (release, [WAIT])
 *     report     reads begin_ns (acquire), the rest, begin_ns again: the same means that all belongs to one wait
 *     report     counted_ns: CAS from what it read to now; success: adds the difference to the wait's record
 *     waiter     begin_ns = 0, swaps counted_ns with 0, reads the clock, adds what lies between the two
 *
 * Invariants
 * 1. Each ns of a wait is added once. A CAS that succeeds and the final swap split the time without gap or overlap, and
 *    no report reads a clock later than the waiter's last: its CAS came before the swap.
 * 2. A CAS succeeds only for the wait whose counted_ns was read: every value is a time of the monotonic clock within
 *    its wait, so none comes back. The record was read between the two loads of begin_ns, so it is that wait's.
 * 3. The report that adds first (counted_ns = begin_ns) adds the contention, too.
 *
 * Threads that wait at once and for which there is no slot are counted only.
 *
 * A wait that was abandoned (pthread_cancel, longjmp) leaves its slot filled, and its slot of the contended locks.
 * The thread's end clears both, and so does its next wait, unless that stands deeper on the stack: then it may be one
 * of a signal handler that interrupted the first one, and is left out. A report frees slots of threads that are gone
 * without notice. The block profile keeps what reports counted of such a wait; like that of a wait that timed out, it
 * is a debt of the next holder.
 */
#include "host/locks/waiting.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/stats.h"
#include "base/task.h"
#include "host/locks/ended_reader.h"
#include "host/shared/shared.h"
#include "host/shared/table_file.h"
#include "host/table/record.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { REUSE_TRIES = 4, CLAIM_TRIES = 64, SLOTS_AT_ONCE = 1024 };

struct slot {
    _Alignas(64) _Atomic int64_t begin_ns;
    _Atomic int64_t counted_ns;
    _Atomic uintptr_t lock;
    _Atomic uintptr_t frame;
    _Atomic uint32_t record;
    _Atomic uint32_t kind;
    _Atomic int32_t tid; /* of the thread that has the slot; 0: free */
    _Atomic uint32_t contended;
    _Atomic dp_waiters_entry listed; /* of the wait that has the slot `contended` */
    _Atomic int64_t taken_ns;        /* for the listener as counted_ns is for the block profile */
    _Atomic uintptr_t reads[DP_WAITING_READS];
};

static struct slot *slots;
static _Atomic uint32_t n_used;                  /* slots below it were claimed once */
static _Atomic uint32_t n_charged;               /* slots that are counted against `memory` */
static _Atomic int32_t n_unlisted;               /* threads that wait without a slot */
static _Atomic(dp_waiting_listener_fn) listener; /* relaxed: a function */
static void (*copy_slot)(uint32_t i);            /* of another process; NULL: the slots are this one's */

int dp_waiting_share(void)
{
    if (!slots && dp_shared_array_init(DP_ARRAY_WAITS, sizeof *slots, SLOTS_AT_ONCE, DP_WAITING_SLOTS, 1))
        return -ENOMEM;
    slots = dp_shared_at(DP_ARRAY_WAITS);
    dp_shared_array(DP_ARRAY_WAITS)->is_fresh = true;
    dp_store_relaxed(&n_charged, SLOTS_AT_ONCE);
    return 0;
}

void dp_waiting_init(void)
{
    dp_thread_at_end(dp_waiting_thread_ends);
}

/* Whether slot `at` may be used: charges memory for more slots if there is any to spare. */
static bool may_use(uint32_t at)
{
    uint32_t charged = dp_load_relaxed(&n_charged);
    if (at >= DP_WAITING_SLOTS || !dp_shared_may_write() || !dp_shared_commit(dp_shared_array(DP_ARRAY_WAITS), at + 1))
        return false;
    if (at < charged)
        return true;
    if (!dp_mem_charge_spare(SLOTS_AT_ONCE * sizeof *slots))
        return false;
    if (!dp_cas_relaxed(&n_charged, &charged, charged + SLOTS_AT_ONCE))
        dp_mem_uncharge(SLOTS_AT_ONCE * sizeof *slots); /* another thread has charged */
    return true;
}

/*
 * Ends a wait whose thread does not come back to it: it leaves the table of contended locks, and what holders have paid
 * for it is waiting time. If a report has counted it already, it waited until then: the next holder pays for that time.
 */
static void abandon(struct slot *slot)
{
    dp_contended_slot contended = dp_load_relaxed(&slot->contended);
    int64_t begin_ns = dp_load_relaxed(&slot->begin_ns);
    dp_store_relaxed(&slot->contended, 0);
    dp_store_relaxed(&slot->begin_ns, 0);
    int64_t counted_ns = dp_swap_acq_rel(&slot->counted_ns, 0), end_ns = counted_ns, paid_ns = 0;
    dp_waiters_remove(contended, dp_load_relaxed(&slot->listed));
    if (begin_ns && contended && counted_ns > begin_ns) {
        dp_contended_timed_out(contended, begin_ns, &end_ns);
        paid_ns = end_ns - counted_ns;
    } else if (begin_ns && contended) {
        paid_ns = dp_contended_cancel(contended, begin_ns);
    }
    if (paid_ns)
        dp_record_count(DP_KIND_BLOCK, dp_load_relaxed(&slot->record), 0, paid_ns);
}

static bool claim_slot(uint32_t at, int32_t tid)
{
    int32_t none = 0;
    return !dp_load_relaxed(&slots[at].tid) && dp_cas_relaxed(&slots[at].tid, &none, tid);
}

/*
 * Tries some slots that other threads have left, so that the table does not grow with the number of threads that came
 * and went; then the first one that was never used; while that fails, because another thread has it or there is none,
 * more of those that were left. 0: none.
 */
static dp_waiting_slot claim(struct dp_thread *self)
{
    int32_t tid = (int32_t)syscall(SYS_gettid);
    for (unsigned i = 0; i < CLAIM_TRIES; i++) {
        uint32_t next = dp_load_relaxed(&n_used), at = next ? (self->number + i * 127) % next : 0;
        if (next && claim_slot(at, tid))
            return at + 1;
        if (i < REUSE_TRIES || !may_use(next))
            continue;
        bool is_mine = claim_slot(next, tid);
        at = next;
        dp_cas_relaxed(&n_used, &next, next + 1); /* also for a thread that has taken it and not come so far */
        if (is_mine)
            return at + 1;
    }
    return 0;
}

/* The calling thread waits without a slot, or does so no more. */
static void set_unlisted(struct dp_thread *self, bool is)
{
    if ((self->waiting == DP_WAITING_UNLISTED) == is)
        return;
    self->waiting = is ? DP_WAITING_UNLISTED : 0;
    dp_add_relaxed(&n_unlisted, is ? 1 : -1);
}

static struct slot *slot_of(const struct dp_thread *self)
{
    return slots && self->waiting && self->waiting != DP_WAITING_UNLISTED ? &slots[self->waiting - 1] : NULL;
}

dp_waiting_slot dp_waiting_begin(const void *lock, unsigned kind, int64_t begin_ns, dp_record_id record,
                                 uintptr_t frame)
{
    struct dp_thread *self = dp_thread_self();
    if (!slots)
        return 0;
    if (!slot_of(self)) {
        dp_waiting_slot number = claim(self);
        set_unlisted(self, !number);
        if (!number) {
            dp_stats_add(DP_STAT_WAITS_UNLISTED, 1);
            return DP_WAITING_UNLISTED;
        }
        self->waiting = number;
    }
    struct slot *slot = slot_of(self);
    if (dp_load_relaxed(&slot->begin_ns)) {
        if (frame < dp_load_relaxed(&slot->frame))
            return 0;
        abandon(slot);
    }
    dp_fence_release(); /* [WAIT] a report that finds any of what follows finds the last wait over, too */
    dp_store_relaxed(&slot->lock, (uintptr_t)lock);
    dp_store_relaxed(&slot->frame, frame);
    dp_store_relaxed(&slot->record, record);
    dp_store_relaxed(&slot->kind, kind);
    dp_store_relaxed(&slot->contended, 0);
    for (unsigned i = 0; i < DP_WAITING_READS; i++)
        dp_store_relaxed(&slot->reads[i], self->reads[i]);
    dp_store_relaxed(&slot->counted_ns, begin_ns);
    dp_store_relaxed(&slot->taken_ns, begin_ns);
    dp_store_release(&slot->begin_ns, begin_ns); /* [WAIT] */
    return self->waiting;
}

void dp_waiting_entered(dp_waiting_slot number, dp_contended_slot contended, dp_waiters_entry listed)
{
    if (!number || number == DP_WAITING_UNLISTED)
        return;
    dp_store_relaxed(&slots[number - 1].listed, listed);
    dp_store_relaxed(&slots[number - 1].contended, contended);
}

bool dp_waiting_is_inside(uintptr_t frame)
{
    const struct slot *slot = slot_of(dp_thread_self());
    return slot && dp_load_relaxed(&slot->begin_ns) && frame < dp_load_relaxed(&slot->frame);
}

void dp_waiting_listen(dp_waiting_listener_fn fn)
{
    dp_store_relaxed(&listener, fn);
}

/* As with counted_ns, a take by another thread and this swap split the time without gap or overlap. */
static void tell_listener(struct slot *slot)
{
    dp_waiting_listener_fn fn = dp_load_relaxed(&listener);
    int64_t taken_ns = fn ? dp_swap_acq_rel(&slot->taken_ns, 0) : 0;
    if (taken_ns)
        fn(dp_load_relaxed(&slot->tid), dp_load_relaxed(&slot->record), dp_clock_ns() - taken_ns);
}

int64_t dp_waiting_end(dp_waiting_slot number, int64_t begin_ns)
{
    if (number == DP_WAITING_UNLISTED)
        set_unlisted(dp_thread_self(), false);
    if (!number || number == DP_WAITING_UNLISTED)
        return begin_ns;
    struct slot *slot = &slots[number - 1];
    if (dp_load_relaxed(&slot->begin_ns) != begin_ns)
        return -1;
    tell_listener(slot);
    dp_store_relaxed(&slot->contended, 0);
    dp_store_relaxed(&slot->begin_ns, 0);
    return dp_swap_acq_rel(&slot->counted_ns, 0);
}

uintptr_t dp_waiting_lock(dp_waiting_slot number)
{
    return number && number != DP_WAITING_UNLISTED ? dp_load_relaxed(&slots[number - 1].lock) : 0;
}

static void free_slot(struct slot *slot)
{
    abandon(slot);
    dp_store_release(&slot->tid, 0); /* [SLOT] the next owner's stores come after these */
}

void dp_waiting_thread_ends(void)
{
    struct dp_thread *self = dp_thread_self();
    struct slot *slot = slot_of(self);
    set_unlisted(self, false);
    if (slot && dp_shared_may_write_now()) /* else it is the parent's: no fork handler has seen this process */
        free_slot(slot);
    self->waiting = 0;
    for (unsigned i = 0; i < DP_WAITING_READS; i++)
        if (self->reads[i])
            dp_ended_reader_note(self->reads[i], (int32_t)syscall(SYS_gettid));
}

DP_IN_CHILD void dp_waiting_fork_child(void)
{
    dp_thread_self()->waiting = 0;
    bool used = dp_load_relaxed(&n_used);
    dp_store_relaxed(&n_used, 0);
    dp_store_relaxed(&n_unlisted, 0);
    if (used && !dp_shared_file_is_mapped()) /* else they are the parent's, and the child's file begins without any */
        madvise(slots, DP_WAITING_SLOTS * sizeof *slots, MADV_DONTNEED);
}

/* ---- for reports ---- */

unsigned dp_waiting_unlisted(void)
{
    int32_t n = dp_load_relaxed(&n_unlisted);
    return n > 0 ? (unsigned)n : 0;
}

unsigned dp_waiting_slots(void)
{
    return dp_load_relaxed(&n_used);
}

bool dp_waiting_peek(unsigned i, struct dp_waiting *wait)
{
    struct slot *slot = &slots[i];
    wait->begin_ns =
        dp_load_acquire(&slot->begin_ns); /* [WAIT]: what the slot holds is this wait's, or a later one's */
    if (!wait->begin_ns)
        return false;
    wait->slot = i;
    wait->lock = dp_load_relaxed(&slot->lock);
    wait->record = dp_load_relaxed(&slot->record);
    uint32_t kind = dp_load_relaxed(&slot->kind);
    wait->kind = (uint8_t)kind;
    wait->is_shared = kind & DELTAPROF_LOCK_SHARED;
    wait->tid = dp_load_relaxed(&slot->tid);
    for (unsigned r = 0; r < DP_WAITING_READS; r++)
        wait->reads[r] = dp_load_relaxed(&slot->reads[r]);
    dp_fence_acquire();
    return dp_load_relaxed(&slot->begin_ns) == wait->begin_ns;
}

bool dp_waiting_read(unsigned i, struct dp_waiting *wait)
{
    return dp_waiting_peek(i, wait) && !dp_task_is_gone(wait->tid);
}

bool dp_waiting_peek_again(unsigned i, struct dp_waiting *wait)
{
    if (copy_slot)
        copy_slot(i);
    return dp_waiting_peek(i, wait);
}

void dp_waiting_adopt(uint32_t n, uint32_t n_records, void (*copy)(uint32_t i))
{
    struct dp_waiting wait, again;
    dp_store_relaxed(&n_used, n);
    copy_slot = copy;
    for (uint32_t i = 0; i < n; i++)
        if (!dp_waiting_peek(i, &wait) || !dp_waiting_peek_again(i, &again) || wait.begin_ns != again.begin_ns ||
            wait.record != again.record || wait.kind != again.kind || wait.tid != again.tid ||
            (dp_load_relaxed(&slots[i].kind) & UINT8_MAX) > DELTAPROF_LOCK_GIL ||
            dp_load_relaxed(&slots[i].record) >= n_records || dp_load_relaxed(&slots[i].tid) <= 0 ||
            dp_load_relaxed(&slots[i].begin_ns) < 0)
            dp_store_relaxed(&slots[i].begin_ns, 0);
}

bool dp_waiting_is_named(dp_record_id record)
{
    for (uint32_t i = 0; i < dp_load_relaxed(&n_used); i++)
        if (dp_load_relaxed(&slots[i].begin_ns) && dp_load_relaxed(&slots[i].record) == record)
            return true;
    return false;
}

int64_t dp_waiting_collect(const struct dp_waiting *wait, int64_t now_ns)
{
    struct slot *slot = &slots[wait->slot];
    int64_t taken_ns = dp_load_acquire(&slot->taken_ns); /* [WAIT] */
    bool is_under_way = taken_ns >= wait->begin_ns && taken_ns < now_ns &&
                        dp_load_relaxed(&slot->begin_ns) == wait->begin_ns &&
                        dp_cas_publish(&slot->taken_ns, &taken_ns, now_ns);
    return is_under_way ? now_ns - taken_ns : 0;
}

/* A thread that ended without notice keeps its slot until a report frees it. */
static void sweep(struct slot *slot)
{
    int32_t tid = dp_load_relaxed(&slot->tid);
    if (tid && dp_task_is_gone(tid) && dp_cas_acquire(&slot->tid, &tid, -1))
        free_slot(slot);
}

void dp_waiting_count(int64_t least_ns, int64_t end_ns)
{
    unsigned n = dp_waiting_slots();
    for (unsigned i = 0; i < n; i++) {
        struct slot *slot = &slots[i];
        struct dp_waiting wait;
        int64_t counted = dp_load_acquire(&slot->counted_ns); /* [WAIT] */
        if (!dp_waiting_read(i, &wait)) {
            sweep(slot);
            continue;
        }
        int64_t now = end_ns ? end_ns : dp_clock_ns();
        if (counted < wait.begin_ns || now <= counted || now - wait.begin_ns < least_ns ||
            !dp_cas_publish(&slot->counted_ns, &counted, now))
            continue;
        dp_record_count(DP_KIND_BLOCK, wait.record, counted == wait.begin_ns, now - counted);
    }
}
