/* SPDX-License-Identifier: MIT */
/*
 * host/locks/futex.c - the hooks of futexes: record waits of the kernel's futex calls, and the wakes that end them.
 *
 * A lock built on futexes enters the kernel only when it is contended, so each call that waits is one wait. There are
 * five differences from a wait for a lock (wait.c):
 *
 * - When the wait begins, it is not known what the thread waits for (futex_class.h). The stack is captured first,
 *   because the class of the wait comes from it. The clock is read after that: the wait begins with the system call.
 * - A wake counts as an unlock: the thread that wakes pays for the waits on that word. Some waiters have no slot at
 *   that word: those of another process, and those that a requeue moved to it. Their waits end as [hand-over].
 * - A call that finds another value in the word returns EAGAIN and has not waited; contended locks cause this often. If
 *   a holder has paid for the call by then, the paid time is added to the waiter's row, so that both profiles agree.
 * - A call that waits for several words at once (futex_waitv) has no slot. If a lock makes it, the wait ends as
 *   [unknown holder].
 * - A program's own lock may report its waits (locks.h), and then wait in a futex call. Such a futex wait, inside a
 *   reported wait of the same thread, is left out.
 *
 * Each thread keeps the last two words on which it was woken. If it later wakes others on one of them, it is a holder.
 */
#include "base/clock.h"
#include "host/locks/futex_class.h"
#include "host/table/labels.h"
#include "host/locks/pairing.h"
#include "host/locks/last_unlock.h"
#include "host/locks/lock_seen.h"
#include "host/locks/wait_event.h"
#include "host/unwind/unwind.h"

/* The content of struct deltaprof_futex_wake. */
enum { DEBTS_MOST = 16 };
struct __attribute__((may_alias)) wake {
    uintptr_t word;
    struct dp_contended_debt debts[DEBTS_MOST];
    struct dp_pairing pairing; /* group i: the waiters of debts[i] */
};
_Static_assert((int)DEBTS_MOST <= (int)DP_PAIRING_GROUPS, "groups");
_Static_assert(sizeof(struct wake) <= sizeof(struct deltaprof_futex_wake), "wake");

/* Fingerprint of a word's address, for the last two words of a thread: smaller than the address, never 0. */
static uint32_t mark_of(const void *word)
{
    return (uint32_t)((uintptr_t)word >> 2) | 1u << 31;
}

static void remember(const void *word)
{
    struct dp_thread *self = dp_thread_self();
    if (self->woken_on[0] != mark_of(word))
        self->woken_on[1] = self->woken_on[0];
    self->woken_on[0] = mark_of(word);
}

static bool remembers(const void *word)
{
    const struct dp_thread *self = dp_thread_self();
    return self->woken_on[0] == mark_of(word) || self->woken_on[1] == mark_of(word);
}

/* A holder of this word wakes others: marks the classes of all waits for the word as locks. */
static void mark_holder(const void *word)
{
    unsigned classes[16], n = dp_contended_classes(word, classes, 16);
    for (unsigned i = 0; i < n; i++)
        dp_futex_class_note_holder(classes[i]);
}

static void pay(const struct dp_contended_debt *debt, dp_frame_id frame, dp_record_id waiter)
{
    if (dp_load_relaxed(&dp_wait_rates.mutex))
        dp_wait_event_record_synthetic(frame, dp_labels_of_futex(debt->class), debt->ns, waiter);
}

/* The record that a wait's class may stand for: programs wait in many stacks, which differ far from their leaf. */
static dp_record_id record_of_class(const struct dp_stack *stack, uint32_t labels, dp_record_id record)
{
    dp_record_id of_head;
    if (!dp_futex_class_needs_head(record))
        return record;
    struct dp_stack head = {.hash = dp_stack_hash(stack->frames, DP_FUTEX_FRAMES),
                            .depth = DP_FUTEX_FRAMES,
                            .cut = 1,
                            .frames = stack->frames};
    return dp_record_intern(DP_KIND_BLOCK, labels, &head, &of_head) ? of_head : record;
}

__attribute__((noinline)) void deltaprof_futex_wait_begin(struct deltaprof_wait *out, const void *word,
                                                          const struct deltaprof_site *site)
{
    struct dp_wait *wait = (struct dp_wait *)out;
    struct deltaprof_site caller = DELTAPROF_SITE_CALLER();
    struct dp_contended_debt taken;
    struct dp_stack stack;
    bool may_hold = false;
    wait->kind = 0;
    if ((!dp_load_relaxed(&dp_wait_rates.mutex) && !dp_load_relaxed(&dp_wait_rates.block_ns)) ||
        dp_thread_is_nested(dp_thread_self(), site ? site->sp : caller.sp) || dp_waiting_is_inside((uintptr_t)wait))
        return;
    struct dp_thread_event event = dp_thread_event_begin();
    dp_unwind_walk(DP_KIND_BLOCK, dp_thread_scratch(), site ? site : &caller, &stack);
    uint32_t labels = dp_labels_now(&stack) | dp_labels_of_lock(DELTAPROF_LOCK_FUTEX);
    if (dp_record_intern(DP_KIND_BLOCK, labels, &stack, &wait->record)) {
        wait->kind = DELTAPROF_LOCK_FUTEX;
        wait->class = (uint16_t)dp_futex_class_of(record_of_class(&stack, labels, wait->record), &may_hold);
        wait->blamed = may_hold && wait->class && dp_load_relaxed(&dp_wait_rates.mutex);
        wait->slot = 0;
        wait->listed = 0;
        wait->n = 1;
        wait->epoch = dp_record_epoch();
        wait->begin_ns = dp_clock_ns();
        wait->waiting = dp_waiting_begin(word, wait->kind, wait->begin_ns, wait->record, (uintptr_t)wait);
        dp_lock_seen_note(DP_KIND_BLOCK, wait->record, (uintptr_t)word, 0);
    }
    dp_thread_event_end(event);
    if (!wait->kind || !wait->blamed || !word)
        return;
    wait->slot = dp_contended_enter_futex(word, wait->class, wait->begin_ns, &taken);
    wait->listed = dp_waiters_add(wait->slot, wait->record, wait->begin_ns);
    dp_waiting_entered(wait->waiting, wait->slot, wait->listed);
    if (taken.ns)
        pay(&taken, DP_FRAME_UNKNOWN_HOLDER, DP_CHAIN_UNKNOWN);
}

/*
 * Ends the wait in the mutex profile. May move *end_ns forward, to the time up to which holders have paid. Returns the
 * time that holders have paid for a call that did not wait; else 0.
 */
static int64_t unenter(const struct dp_wait *wait, enum deltaprof_lock_end end, int64_t *end_ns)
{
    struct dp_contended_debt owed = {0, wait->class, wait->slot};
    dp_frame_id frame = DP_FRAME_HAND_OVER;
    dp_waiters_remove(wait->slot, wait->listed);
    if (end == DELTAPROF_NOT_WAITED)
        return wait->slot ? dp_contended_cancel(wait->slot, wait->begin_ns) : 0;
    if (!wait->slot) {
        owed.ns = *end_ns - wait->begin_ns;
        frame = DP_FRAME_UNKNOWN_HOLDER;
    } else if (end == DELTAPROF_ACQUIRED) {
        owed.ns = dp_contended_acquired(wait->slot, wait->begin_ns, end_ns);
    } else {
        owed.ns = dp_contended_timed_out(wait->slot, wait->begin_ns, end_ns);
    }
    if (owed.ns)
        pay(&owed, frame, wait->record);
    return 0;
}

void deltaprof_futex_wait_end(struct deltaprof_wait *in, const void *word, enum deltaprof_lock_end end)
{
    const struct dp_wait *wait = (const struct dp_wait *)in;
    if (!wait->kind || wait->epoch != dp_record_epoch())
        return; /* a signal handler forked during the wait, as in wait.c */
    int64_t counted_ns = dp_waiting_end(wait->waiting, wait->begin_ns), end_ns = dp_clock_ns(), paid_ns = 0;
    if (counted_ns < 0)
        return; /* a later wait of the thread has the slot: this one was ended as abandoned */
    if (end == DELTAPROF_NOT_WAITED && counted_ns != wait->begin_ns) {
        end = DELTAPROF_TIMED_OUT; /* a report has already counted it, up to counted_ns */
        end_ns = counted_ns;
    }
    if (wait->blamed)
        paid_ns = unenter(wait, end, &end_ns);
    if (end == DELTAPROF_ACQUIRED && wait->blamed && word)
        remember(word);
    dp_wait_event_count(wait, end, counted_ns, end_ns, paid_ns);
}

bool deltaprof_futex_wake_begin(struct deltaprof_futex_wake *out, const void *word)
{
    struct wake *wake = (struct wake *)out;
    wake->word = (uintptr_t)word;
    if (dp_thread_is_nested(dp_thread_self(), deltaprof_stack_pointer()))
        return false;
    if (remembers(word))
        mark_holder(word);
    unsigned n = dp_contended_wake(word, wake->debts, DEBTS_MOST);
    int64_t now = n ? dp_clock_ns() : 0;
    dp_pairing_begin(&wake->pairing);
    for (unsigned i = 0; i < n; i++) {
        const struct dp_contended_debt *debt = &wake->debts[i];
        dp_pairing_add(&wake->pairing, i, &(struct dp_contended_place){word, debt->class, debt->slot}, now);
    }
    if (n < DEBTS_MOST)
        wake->debts[n].ns = 0;
    return n;
}

__attribute__((noinline)) void deltaprof_futex_wake_end(const struct deltaprof_futex_wake *in,
                                                        const struct deltaprof_site *site)
{
    const struct wake *wake = (const struct wake *)in;
    struct deltaprof_site caller = DELTAPROF_SITE_CALLER();
    struct dp_stack stack;
    struct dp_wait_share share;
    int64_t owed_ns = 0;
    for (unsigned i = 0; i < DEBTS_MOST && wake->debts[i].ns; i++)
        owed_ns += wake->debts[i].ns;
    if (dp_thread_guarded(dp_thread_self()) || !dp_wait_event_share(owed_ns, false, &share))
        return;
    struct dp_thread_event event = dp_thread_event_begin();
    dp_unwind_walk(DP_KIND_MUTEX, dp_thread_scratch(), site ? site : &caller, &stack);
    for (unsigned i = 0; i < DEBTS_MOST && wake->debts[i].ns; i++) { /* only the first class counts the wake */
        int64_t n = i ? 0 : share.n, ns = dp_wait_share_of(&share, wake->debts[i].ns);
        dp_record_id id;
        if (!dp_wait_event_record_unlock(dp_labels_now(&stack) | dp_labels_of_futex(wake->debts[i].class), &stack, n,
                                         ns, &id))
            continue;
        dp_last_unlock_note(wake->word, id);
        dp_lock_seen_note(DP_KIND_MUTEX, id, wake->word, ns);
        dp_pairing_note(&wake->pairing, i, id, n, ns);
    }
    dp_thread_event_end(event);
}
