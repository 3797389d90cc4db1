/* SPDX-License-Identifier: MIT */
/*
 * host/locks/wait.c - the hooks of locks: record waits and unlocks. Steps: weight, stack, table; contended.c keeps the
 * time that holders owe.
 *
 * A wait costs two clock reads, two atomic steps on its lock's word and its stack, while the thread waits anyway or
 * just after. The stack of a holder is captured after it unlocked, that of a waiter when its wait begins, so that
 * reports see waits that go on (waiting.h). Waits for spin locks are too short for that: their stack is captured at the
 * end, if the wait is recorded. The countdown is guarded only while a stack is captured, never while the host waits. So
 * a cancelled or abandoned wait leaves nothing behind except a slot in the table of waits and, for a kind with a
 * holder, its slot in that of contended locks.
 *
 * A thread whose countdown is guarded (inside the real allocator, a thread of the profiler, a walk that a signal
 * interrupted) records nothing, because the walk's memory has one user per thread. For contended.c that is a missed
 * event.
 *
 * mutex_rate: the words count every wait; one unlock in n, at random, is recorded n-fold. Time without a known holder
 * is recorded on a synthetic frame: it needs no stack, so it is always recorded.
 *
 * A busy lock has many unlocks for each wait, and the stack of each would be captured. So an unlock that owes less
 * than block_rate is weighed as a wait of that length is. Beyond the budget of captures.h the unlocks that owe less
 * than a millisecond are weighed by a millisecond. Whether one is weighed depends only on earlier ones, so sums stay
 * unbiased. With block_rate=1ns each is recorded.
 *
 * Threads of an interpreter wait for its lock thousands of times a second, and their stacks have a runtime's frames,
 * which are dear. Such a wait has a timeout of a few milliseconds, after which it begins again. So beyond the budget
 * one wait in GIL_SHARE is captured, at random, and counts GIL_SHARE times. It is captured at its end, because a
 * capture may make a short wait longer. The others count for their holders, and have no stack. Unlocks of that lock
 * have a budget of their own: beyond it they are weighed by the time by which it is overdrawn, so that the captures
 * that are left use it up.
 *
 * Rates are relaxed atomics, each read once per event: they order nothing.
 */
#include "host/locks/wait.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"
#include "host/locks/captures.h"
#include "host/locks/contended.h"
#include "host/locks/futex_class.h"
#include "host/thread/gate.h"
#include "host/locks/pairing.h"
#include "host/table/labels.h"
#include "host/locks/ended_reader.h"
#include "host/locks/last_unlock.h"
#include "host/locks/lock_seen.h"
#include "host/table/record.h"
#include "host/table/table.h"
#include "host/thread/thread.h"
#include "host/locks/wait_event.h"
#include "host/locks/waiting.h"
#include "host/unwind/unwind.h"

#include <deltaprof/locks.h>
#include <string.h>

/* Memory left for reports where waiters are listed. */
#define WAITERS_SPARE_BYTES ((size_t)2 << 20)

/* The content of struct deltaprof_owed. */
struct __attribute__((may_alias)) owed {
    int64_t ns[DP_CONTENDED_KINDS];
    struct dp_pairing pairing; /* a group is a kind */
};
_Static_assert(sizeof(struct owed) == sizeof(struct deltaprof_owed), "owed");

enum { GIL_SHARE = 64 };

struct dp_wait_rates dp_wait_rates;

/* Captures for waits and for unlocks of an interpreter's lock, and for unlocks of other locks. */
static struct dp_captures gil_waits, gil_unlocks, unlocks;

int dp_wait_init(size_t memory_bytes)
{
    int err = dp_contended_init();
    dp_waiting_init();
    dp_futex_class_init();
    if (!err && memory_bytes > dp_mem_used() + WAITERS_SPARE_BYTES)
        dp_waiters_init(); /* may fail: then chains have no waiter */
    return err;
}

void dp_wait_tune(const struct dp_config *conf, bool on)
{
    dp_store_relaxed(&dp_wait_rates.mutex, on ? conf->mutex_rate : 0);
    dp_store_relaxed(&dp_wait_rates.block_ns, on ? conf->block_rate_ns : 0);
    dp_thread_gate_tune_locks(on && (conf->mutex_rate || conf->block_rate_ns));
}

DP_IN_CHILD void dp_wait_fork_child(void)
{
    dp_contended_fork_child();
    dp_waiters_fork_child();
    dp_waiting_fork_child();
}

int64_t dp_wait_weigh(int64_t wait_ns, int64_t rate_ns, uint64_t random, int64_t *delay_ns)
{
    *delay_ns = wait_ns;
    if (wait_ns >= rate_ns || rate_ns <= 1)
        return 1;
    /* One draw is used twice: whether it is below wait_ns decides; if so, its value rounds the count. rate < 2^63. */
    uint64_t draw = (uint64_t)((unsigned __int128)random * (uint64_t)rate_ns >> 64);
    if (draw >= (uint64_t)wait_ns)
        return 0;
    *delay_ns = rate_ns;
    return rate_ns / wait_ns + (draw < (uint64_t)(rate_ns % wait_ns));
}

/* A kind with a holder as contended.h counts it, 0: it has none; and back. */
static unsigned contended_kind(enum deltaprof_lock_kind kind)
{
    return kind <= DELTAPROF_LOCK_WRITE ? kind : kind == DELTAPROF_LOCK_GIL ? DP_CONTENDED_KINDS - 1 : 0;
}

static unsigned public_kind(unsigned contended)
{
    return contended == DP_CONTENDED_KINDS - 1 ? DELTAPROF_LOCK_GIL : contended;
}

/* How many waits for an interpreter's lock the one that begins stands for. */
static uint8_t gil_share(int64_t now_ns)
{
    if (dp_load_relaxed(&dp_wait_rates.block_ns) == 1 || dp_captures_allow(&gil_waits, now_ns))
        return 1;
    return dp_thread_random() % GIL_SHARE ? 0 : GIL_SHARE;
}

/* The stack of a wait that begins; it is the same at the end. */
static void register_wait(struct dp_wait *wait, const void *lock, unsigned shared, const struct deltaprof_site *site)
{
    struct dp_stack stack;
    struct dp_thread_event event = dp_thread_event_begin();
    dp_unwind_walk(DP_KIND_BLOCK, dp_thread_scratch(), site, &stack);
    if (dp_record_intern(DP_KIND_BLOCK, dp_labels_now(&stack) | dp_labels_of_lock(wait->kind), &stack, &wait->record)) {
        wait->waiting = dp_waiting_begin(lock, wait->kind | shared, wait->begin_ns, wait->record, (uintptr_t)wait);
        wait->listed = dp_waiters_add(wait->slot, wait->record, wait->begin_ns);
        if (wait->kind != DELTAPROF_LOCK_JOIN)
            dp_lock_seen_note(DP_KIND_BLOCK, wait->record, (uintptr_t)lock, 0);
    }
    dp_thread_event_end(event);
    if (wait->kind == DELTAPROF_LOCK_GIL)
        dp_captures_pay(&gil_waits, wait->begin_ns, dp_clock_ns());
}

__attribute__((noinline)) void deltaprof_lock_wait_begin(struct deltaprof_wait *out, const void *lock,
                                                         enum deltaprof_lock_kind kind,
                                                         const struct deltaprof_site *site)
{
    struct dp_wait *wait = (struct dp_wait *)out;
    unsigned shared = kind & DELTAPROF_LOCK_SHARED;
    bool is_robust = kind & DELTAPROF_LOCK_ROBUST;
    kind &= ~(DELTAPROF_LOCK_SHARED | DELTAPROF_LOCK_ROBUST);
    wait->kind = 0;
    bool blamed = contended_kind(kind) && dp_load_relaxed(&dp_wait_rates.mutex);
    if ((!blamed && !dp_load_relaxed(&dp_wait_rates.block_ns)) ||
        dp_thread_is_nested(dp_thread_self(), site ? site->sp : deltaprof_stack_pointer()))
        return;
    wait->kind = kind;
    wait->blamed = blamed;
    wait->slot = 0;
    wait->waiting = 0;
    wait->record = 0;
    wait->listed = 0;
    wait->may_be_foreign = is_robust;
    wait->epoch = dp_record_epoch();
    wait->begin_ns = dp_clock_ns();
    if (blamed && lock && (!shared || is_robust))
        wait->slot = dp_contended_enter(lock, contended_kind(kind), wait->begin_ns);
    wait->n = kind == DELTAPROF_LOCK_GIL ? gil_share(wait->begin_ns) : 1;
    if (wait->n == 1 && kind != DELTAPROF_LOCK_SPIN) {
        struct deltaprof_site caller = DELTAPROF_SITE_CALLER();
        register_wait(wait, lock, shared, site ? site : &caller);
    }
}

/*
 * Ends the wait for the mutex profile; may move *end_ns forward. Returns the time of a cancelled wait that holders have
 * paid for.
 */
static int64_t unenter(const struct dp_wait *wait, enum deltaprof_lock_end end, int64_t *end_ns)
{
    bool on = dp_load_relaxed(&dp_wait_rates.mutex) != 0;
    dp_record_id waiter = wait->record ? wait->record : DP_CHAIN_UNKNOWN;
    dp_waiters_remove(wait->slot, wait->listed);
    if (!wait->slot) {
        if (on && end != DELTAPROF_NOT_WAITED)
            dp_wait_event_record_synthetic(DP_FRAME_UNKNOWN_HOLDER, dp_labels_of_lock(wait->kind),
                                           *end_ns - wait->begin_ns, waiter);
    } else if (end != DELTAPROF_NOT_WAITED) {
        int64_t owed_ns = end == DELTAPROF_ACQUIRED ? dp_contended_acquired(wait->slot, wait->begin_ns, end_ns)
                                                    : dp_contended_timed_out(wait->slot, wait->begin_ns, end_ns);
        /* No thread of this process has unlocked it since: a thread of another process, or the holder died. */
        bool is_foreign = wait->may_be_foreign && owed_ns >= *end_ns - wait->begin_ns;
        if (on && owed_ns)
            dp_wait_event_record_synthetic(is_foreign ? DP_FRAME_UNKNOWN_HOLDER : DP_FRAME_HAND_OVER,
                                           dp_labels_of_lock(wait->kind), owed_ns, waiter);
    } else {
        return dp_contended_cancel(wait->slot, wait->begin_ns);
    }
    return 0;
}

__attribute__((noinline)) void deltaprof_lock_wait_end(struct deltaprof_wait *in, enum deltaprof_lock_end end,
                                                       const struct deltaprof_site *site)
{
    const struct dp_wait *wait = (const struct dp_wait *)in;
    if (!wait->kind || wait->epoch != dp_record_epoch())
        return; /* a signal handler forked during the wait: the child's words do not have this wait of the parent */
    int64_t counted_ns = dp_waiting_end(wait->waiting, wait->begin_ns), end_ns = dp_clock_ns(), paid_ns = 0;
    if (counted_ns < 0) /* another wait of this thread, as of a second coroutine, has taken the slot */
        counted_ns = wait->begin_ns;
    if (wait->blamed)
        paid_ns = unenter(wait, end, &end_ns);
    if (wait->waiting || end == DELTAPROF_NOT_WAITED) {
        dp_wait_event_count(wait, end, counted_ns, end_ns, paid_ns);
        return;
    }
    int64_t rate_ns = dp_load_relaxed(&dp_wait_rates.block_ns), delay_ns;
    int64_t n = rate_ns && wait->n ? dp_wait_weigh(end_ns - wait->begin_ns, rate_ns, dp_thread_random(), &delay_ns) : 0;
    if (!n)
        return;
    n *= wait->n;
    delay_ns *= wait->n;
    struct deltaprof_site caller = DELTAPROF_SITE_CALLER();
    struct dp_stack stack;
    struct dp_thread_event event = dp_thread_event_begin();
    dp_unwind_walk(DP_KIND_BLOCK, dp_thread_scratch(), site ? site : &caller, &stack);
    dp_record_id id;
    if (dp_record_add(DP_KIND_BLOCK, 0, dp_labels_now(&stack) | dp_labels_of_lock(wait->kind), &stack, n, delay_ns,
                      &id))
        dp_events_add(DP_KIND_BLOCK, id, n, delay_ns, end_ns, end_ns - wait->begin_ns);
    dp_thread_event_end(event);
}

void dp_wait_event_count(const struct dp_wait *wait, enum deltaprof_lock_end end, int64_t counted_ns, int64_t end_ns,
                         int64_t paid_ns)
{
    int64_t rate_ns = dp_load_relaxed(&dp_wait_rates.block_ns), delay_ns;
    if (end != DELTAPROF_NOT_WAITED && wait->kind != DELTAPROF_LOCK_JOIN)
        dp_lock_seen_note(DP_KIND_BLOCK, wait->record, dp_waiting_lock(wait->waiting), end_ns - wait->begin_ns);
    if (counted_ns != wait->begin_ns) { /* reports have counted it up to then, and what they counted stays */
        if (end == DELTAPROF_NOT_WAITED)
            end_ns = counted_ns;
        else if (end_ns > counted_ns && rate_ns) /* 0: turned off meanwhile */
            dp_record_count(DP_KIND_BLOCK, wait->record, 0, end_ns - counted_ns);
        dp_events_add(DP_KIND_BLOCK, wait->record, 1, end_ns - wait->begin_ns, end_ns, end_ns - wait->begin_ns);
        return;
    }
    int64_t wait_ns = end == DELTAPROF_NOT_WAITED ? paid_ns : end_ns - wait->begin_ns;
    int64_t n = rate_ns && wait_ns > 0 ? dp_wait_weigh(wait_ns, rate_ns, dp_thread_random(), &delay_ns) : 0;
    if (!n)
        return;
    n = end == DELTAPROF_NOT_WAITED ? 0 : n;
    dp_record_count(DP_KIND_BLOCK, wait->record, n, delay_ns);
    dp_events_add(DP_KIND_BLOCK, wait->record, n, delay_ns, end_ns, wait_ns);
}

/* The length by which an unlock of an interpreter's lock is weighed because the budget is used up; else 0. */
static int64_t weighed_of_gil(int64_t least_ns)
{
    int64_t now_ns = dp_clock_ns();
    return least_ns == 1 || dp_captures_allow(&gil_unlocks, now_ns) ? 0 : dp_captures_over_ns(&gil_unlocks, now_ns);
}

/* The same of another lock. */
static int64_t weighed_of_other(int64_t least_ns, int64_t owed_ns)
{
    bool is_recorded = least_ns == 1 || least_ns >= DP_CAPTURE_NS || owed_ns >= DP_CAPTURE_NS;
    return is_recorded || dp_captures_allow(&unlocks, dp_clock_ns()) ? 0 : DP_CAPTURE_NS;
}

bool dp_wait_event_share(int64_t owed_ns, bool is_gil, struct dp_wait_share *share)
{
    int64_t rate = dp_load_relaxed(&dp_wait_rates.mutex), least_ns = dp_load_relaxed(&dp_wait_rates.block_ns);
    if (!rate || owed_ns <= 0 || (rate > 1 && dp_thread_random() > UINT64_MAX / (uint64_t)rate))
        return false;
    int64_t scale_ns = is_gil ? weighed_of_gil(least_ns) : weighed_of_other(least_ns, owed_ns);
    share->n =
        rate * dp_wait_weigh(owed_ns, scale_ns > least_ns ? scale_ns : least_ns, dp_thread_random(), &share->delay_ns);
    share->delay_ns *= rate;
    share->owed_ns = owed_ns;
    if (is_gil && scale_ns && share->n)
        dp_captures_overdraw(&gil_unlocks);
    return share->n != 0;
}

/* In a process that has copied the tables of another one: that one's block_rate, and when it ended, 0: it lives. */
static struct {
    int64_t block_rate_ns, end_ns;
} adopted;

void dp_wait_adopt(int64_t block_rate_ns, int64_t end_ns)
{
    adopted.block_rate_ns = block_rate_ns;
    adopted.end_ns = end_ns;
}

void dp_wait_count_under_way(void)
{
    int64_t rate_ns = dp_load_relaxed(&dp_wait_rates.block_ns);
    if (rate_ns || adopted.block_rate_ns)
        dp_waiting_count(rate_ns ? rate_ns : adopted.block_rate_ns, adopted.end_ns);
}

bool deltaprof_lock_unlock_begin(struct deltaprof_owed *out, const void *lock)
{
    struct owed *owed = (struct owed *)out;
    dp_contended_slot slots[DP_CONTENDED_KINDS] = {0};
    memset(owed->ns, 0, sizeof owed->ns);
    dp_pairing_begin(&owed->pairing);
    bool nested = dp_thread_is_nested(dp_thread_self(), deltaprof_stack_pointer());
    bool owes = !nested && dp_contended_unlock(lock, owed->ns, slots) > 0;
    int64_t now = owes ? dp_clock_ns() : 0;
    for (unsigned kind = 1; owes && kind < DP_CONTENDED_KINDS; kind++)
        if (slots[kind])
            dp_pairing_add(&owed->pairing, kind, &(struct dp_contended_place){lock, kind, slots[kind]}, now);
    owed->ns[0] = (int64_t)(uintptr_t)lock; /* no kind is 0: free for the lock */
    return owes;
}

__attribute__((noinline)) void deltaprof_lock_unlock_end(const struct deltaprof_owed *in,
                                                         const struct deltaprof_site *site)
{
    const struct owed *owed = (const struct owed *)in;
    int64_t owed_ns = 0;
    for (unsigned kind = 1; kind < DP_CONTENDED_KINDS; kind++)
        owed_ns += owed->ns[kind];
    struct dp_wait_share share;
    bool is_gil = owed->ns[DP_CONTENDED_KINDS - 1] != 0;
    if (dp_thread_guarded(dp_thread_self())) /* begin ended a guard that outlived its hook */
        return;
    if (!dp_wait_event_share(owed_ns, is_gil, &share))
        return;
    int64_t begin_ns = is_gil ? dp_clock_ns() : 0;
    struct deltaprof_site caller = DELTAPROF_SITE_CALLER();
    struct dp_stack stack;
    struct dp_thread_event event = dp_thread_event_begin();
    dp_unwind_walk(DP_KIND_MUTEX, dp_thread_scratch(), site ? site : &caller, &stack);
    for (unsigned kind = 1; kind < DP_CONTENDED_KINDS; kind++)
        if (owed->ns[kind]) {
            int64_t ns = dp_wait_share_of(&share, owed->ns[kind]);
            dp_record_id id;
            if (!dp_wait_event_record_unlock(dp_labels_now(&stack) | dp_labels_of_lock(public_kind(kind)), &stack,
                                             share.n, ns, &id))
                continue;
            dp_last_unlock_note((uintptr_t)owed->ns[0], id);
            dp_lock_seen_note(DP_KIND_MUTEX, id, (uintptr_t)owed->ns[0], ns);
            dp_pairing_note(&owed->pairing, kind, id, share.n, ns);
        }
    dp_thread_event_end(event);
    if (is_gil)
        dp_captures_pay(&gil_unlocks, begin_ns, dp_clock_ns());
}

void deltaprof_lock_destroyed(const void *lock)
{
    struct deltaprof_owed owed;
    dp_ended_reader_drop((uintptr_t)lock);
    if (!deltaprof_lock_unlock_begin(&owed, lock) || !dp_load_relaxed(&dp_wait_rates.mutex))
        return;
    for (unsigned kind = 1; kind < DP_CONTENDED_KINDS; kind++)
        if (owed.ns[kind])
            dp_wait_event_record_synthetic(DP_FRAME_UNKNOWN_HOLDER, dp_labels_of_lock(public_kind(kind)), owed.ns[kind],
                                           DP_CHAIN_UNKNOWN);
}
