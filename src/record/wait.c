/* SPDX-License-Identifier: MIT */
/*
 * record/wait.c - the hooks of locks: record waits and releases. Steps: weight, stack, table; contended.c keeps the
 * time that holders owe.
 *
 * A wait costs two clock reads, two atomic steps on its lock's word and its stack, while the thread waits anyway or
 * just after. The stack of a holder is captured after it unlocked, that of a waiter when its wait begins, so that
 * reports see waits that go on (waiting.h). Waits for spin locks are too short for that: their stack is captured at the
 * end, if the wait is recorded. The countdown is guarded only while a stack is captured, never while the host waits. So
 * a cancelled or abandoned wait leaves nothing behind except a slot in the table of waits and, for a kind with a
 * holder, its place.
 *
 * A thread whose countdown is guarded (inside the real allocator, a thread of the profiler, a walk that a signal
 * interrupted) records nothing, because the walk's memory has one user per thread. For contended.c that is a missed
 * event.
 *
 * mutex_rate: the words count every wait; one release in n, at random, is recorded n-fold. Time without a known holder
 * is recorded on a synthetic frame: it needs no stack, so it is always recorded.
 *
 * Rates are relaxed atomics, each read once per event: they order nothing.
 */
#include "record/wait.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "record/contended.h"
#include "record/gate.h"
#include "record/store.h"
#include "record/labels.h"
#include "record/table.h"
#include "record/thread.h"
#include "record/waiting.h"
#include "unwind/unwind.h"

#include <deltaprof/hooks.h>

/* The content of struct deltaprof_wait. */
struct __attribute__((may_alias)) wait {
    int64_t begin_ns;
    dp_contended_place place;
    dp_waiting_place waiting;
    dp_record_id record; /* of the waiter's stack, if waiting is not 0 */
    uint32_t epoch;
    uint8_t kind;   /* 0: no event */
    uint8_t blamed; /* counts in the mutex profile too */
};
_Static_assert(sizeof(struct wait) <= sizeof(struct deltaprof_wait), "wait");
_Static_assert(sizeof(struct deltaprof_owed) == DP_CONTENDED_KINDS * sizeof(int64_t), "owed");

static _Atomic int64_t mutex_rate, block_rate_ns; /* 0: off */

int dp_wait_init(void)
{
    dp_waiting_init();
    return dp_contended_init();
}

void dp_wait_tune(const struct dp_config *conf, bool on)
{
    dp_store_relaxed(&mutex_rate, on ? conf->mutex_rate : 0);
    dp_store_relaxed(&block_rate_ns, on ? conf->block_rate_ns : 0);
    dp_gate_tune_locks(on && (conf->mutex_rate || conf->block_rate_ns));
}

void dp_wait_fork_child(void)
{
    dp_contended_fork_child();
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

/* An event of this thread from enter() to leave(): the countdown is guarded, and a block for the capture is held. */
struct event {
    int64_t kept;
    bool held;
};

static struct event enter(void)
{
    struct event event = {.kept = deltaprof_guard_enter()};
    dp_fence_signal();
    dp_thread_set_up(dp_thread_self());
    event.held = dp_thread_hold();
    return event;
}

static void leave(struct event event)
{
    dp_thread_let_go(event.held);
    dp_fence_signal();
    deltaprof_guard_exit(event.kept);
}

static void record(unsigned kind, uint32_t labels, const struct dp_stack *stack, int64_t n, int64_t delay_ns)
{
    dp_record_id id;
    dp_record_add(kind, 0, labels, stack, n, delay_ns, &id);
}

/* Records waiting time without a holder's stack. */
static void record_synthetic(dp_frame_id frame, unsigned kind, int64_t delay_ns)
{
    struct dp_stack stack = {.hash = dp_stack_hash(&frame, 1), .depth = 1, .frames = &frame};
    struct event event = enter();
    record(DP_KIND_MUTEX, dp_labels_of_lock(kind), &stack, 1, delay_ns);
    leave(event);
}

/* The stack of a wait that begins; it is the same at the end. */
static void register_wait(struct wait *wait, const void *lock, const struct deltaprof_site *site)
{
    struct dp_stack stack;
    struct event event = enter();
    dp_unwind_walk(dp_thread_scratch(), site, &stack);
    if (dp_record_intern(DP_KIND_BLOCK, dp_labels_now() | dp_labels_of_lock(wait->kind), &stack, &wait->record))
        wait->waiting = dp_waiting_begin(lock, wait->kind, wait->begin_ns, wait->record, (uintptr_t)wait);
    leave(event);
}

__attribute__((noinline)) void deltaprof_lock_wait_begin(struct deltaprof_wait *out, const void *lock,
                                                         enum deltaprof_lock_kind kind,
                                                         const struct deltaprof_site *site)
{
    struct wait *wait = (struct wait *)out;
    wait->kind = 0;
    bool blamed = kind < DP_CONTENDED_KINDS && dp_load_relaxed(&mutex_rate);
    if ((!blamed && !dp_load_relaxed(&block_rate_ns)) || dp_thread_guarded(dp_thread_self()))
        return;
    wait->kind = kind;
    wait->blamed = blamed;
    wait->place = 0;
    wait->waiting = 0;
    wait->epoch = dp_record_epoch();
    wait->begin_ns = dp_clock_ns();
    if (blamed && lock)
        wait->place = dp_contended_enter(lock, kind, wait->begin_ns);
    if (kind != DELTAPROF_LOCK_SPIN) {
        struct deltaprof_site caller = DELTAPROF_SITE_CALLER();
        register_wait(wait, lock, site ? site : &caller);
    }
}

/* Ends the wait for the mutex profile; may move *end_ns forward. */
static void unenter(const struct wait *wait, enum deltaprof_lock_end end, int64_t *end_ns)
{
    bool on = dp_load_relaxed(&mutex_rate) != 0;
    if (!wait->place) {
        if (on && end != DELTAPROF_NOT_WAITED)
            record_synthetic(DP_FRAME_UNKNOWN_HOLDER, wait->kind, *end_ns - wait->begin_ns);
    } else if (end != DELTAPROF_NOT_WAITED) {
        int64_t owed_ns = end == DELTAPROF_ACQUIRED ? dp_contended_acquired(wait->place, wait->begin_ns, end_ns)
                                                    : dp_contended_timed_out(wait->place, wait->begin_ns, end_ns);
        if (on && owed_ns)
            record_synthetic(DP_FRAME_HAND_OVER, wait->kind, owed_ns);
    } else {
        dp_contended_cancel(wait->place, wait->begin_ns);
    }
}

__attribute__((noinline)) void deltaprof_lock_wait_end(struct deltaprof_wait *in, enum deltaprof_lock_end end,
                                                       const struct deltaprof_site *site)
{
    const struct wait *wait = (const struct wait *)in;
    if (!wait->kind || wait->epoch != dp_record_epoch())
        return; /* a signal handler forked during the wait: the child's words do not have this wait of the parent */
    int64_t counted_ns = dp_waiting_end(wait->waiting, wait->begin_ns), end_ns = dp_clock_ns();
    if (wait->blamed)
        unenter(wait, end, &end_ns);
    if (counted_ns != wait->begin_ns) { /* reports have counted it up to then, and what they counted stays */
        if (end != DELTAPROF_NOT_WAITED && end_ns > counted_ns)
            dp_record_count(DP_KIND_BLOCK, wait->record, 0, end_ns - counted_ns);
        return;
    }
    int64_t rate_ns = dp_load_relaxed(&block_rate_ns);
    if (end == DELTAPROF_NOT_WAITED || !rate_ns)
        return;
    int64_t delay_ns, n = dp_wait_weigh(end_ns - wait->begin_ns, rate_ns, dp_thread_random(), &delay_ns);
    if (!n)
        return;
    if (wait->waiting) {
        dp_record_count(DP_KIND_BLOCK, wait->record, n, delay_ns);
        return;
    }
    struct deltaprof_site caller = DELTAPROF_SITE_CALLER();
    struct dp_stack stack;
    struct event event = enter();
    dp_unwind_walk(dp_thread_scratch(), site ? site : &caller, &stack);
    record(DP_KIND_BLOCK, dp_labels_now() | dp_labels_of_lock(wait->kind), &stack, n, delay_ns);
    leave(event);
}

void dp_wait_count_under_way(void)
{
    int64_t rate_ns = dp_load_relaxed(&block_rate_ns);
    if (rate_ns)
        dp_waiting_count(rate_ns);
}

bool deltaprof_lock_release_begin(struct deltaprof_owed *owed, const void *lock)
{
    *owed = (struct deltaprof_owed){{0}};
    return !dp_thread_guarded(dp_thread_self()) && dp_contended_release(lock, owed->ns) > 0;
}

__attribute__((noinline)) void deltaprof_lock_release_end(const struct deltaprof_owed *owed,
                                                          const struct deltaprof_site *site)
{
    int64_t rate = dp_load_relaxed(&mutex_rate);
    if (!rate || dp_thread_guarded(dp_thread_self()))
        return;
    if (rate > 1 && dp_thread_random() > UINT64_MAX / (uint64_t)rate)
        return;
    struct deltaprof_site caller = DELTAPROF_SITE_CALLER();
    struct dp_stack stack;
    struct event event = enter();
    dp_unwind_walk(dp_thread_scratch(), site ? site : &caller, &stack);
    for (unsigned kind = 1; kind < DP_CONTENDED_KINDS; kind++)
        if (owed->ns[kind])
            record(DP_KIND_MUTEX, dp_labels_now() | dp_labels_of_lock(kind), &stack, rate, rate * owed->ns[kind]);
    leave(event);
}

void deltaprof_lock_destroyed(const void *lock)
{
    struct deltaprof_owed owed;
    if (!deltaprof_lock_release_begin(&owed, lock) || !dp_load_relaxed(&mutex_rate))
        return;
    for (unsigned kind = 1; kind < DP_CONTENDED_KINDS; kind++)
        if (owed.ns[kind])
            record_synthetic(DP_FRAME_UNKNOWN_HOLDER, kind, owed.ns[kind]);
}
