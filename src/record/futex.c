/* SPDX-License-Identifier: MIT */
/*
 * record/futex.c - the hooks of futexes: record waits of the kernel's futex calls, and the wakes that end them.
 *
 * A lock built on futexes enters the kernel only when it is contended, so each call that waits is one wait. It differs
 * from a wait for a lock (wait.c) in this:
 *
 * - What it waits for is not known yet (futex_class.h). The stack is captured first, because the class of the wait
 *   comes from it. The clock is read after that: the wait begins with the system call.
 * - A wake counts as an unlock: its thread pays for the waits on that word. If it wakes waiters that the word's slots
 * have not (of another process, or put there by a requeue), those waits end as [hand-over].
 * - A call that finds another value in the word has not waited (EAGAIN), which contended locks see often. A holder may
 *   have paid for it meanwhile; then the time paid for is added to the waiter's row, so that both profiles agree.
 * - A lock of its own that reports its waits (locks.h) enters the kernel by the same calls: a wait inside a wait of the
 *   same thread is left out.
 *
 * The last two words that a thread was woken on are kept with the thread. If it wakes others there, it is a holder.
 */
#include "base/clock.h"
#include "record/futex_class.h"
#include "record/labels.h"
#include "record/pairing.h"
#include "record/last_unlock.h"
#include "record/wait_event.h"
#include "unwind/unwind.h"

/* The content of struct deltaprof_futex_wake. */
enum { DEBTS_MOST = 16 };
struct __attribute__((may_alias)) wake {
    uintptr_t word;
    struct dp_contended_debt debts[DEBTS_MOST];
    struct dp_pairing pairing; /* a group is a debt */
};
_Static_assert((int)DEBTS_MOST <= (int)DP_PAIRING_GROUPS, "groups");
_Static_assert(sizeof(struct wake) <= sizeof(struct deltaprof_futex_wake), "wake");

/* For the thread's two last words: not the address, which would need more room. */
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

/* A holder wakes others: all waits for this word are for a lock. */
static void hold(const void *word)
{
    unsigned classes[16], n = dp_contended_classes(word, classes, 16);
    for (unsigned i = 0; i < n; i++)
        dp_futex_class_note_holder(classes[i]);
}

static void pay(const struct dp_contended_debt *debt, dp_frame_id frame, dp_record_id waiter)
{
    if (dp_load_relaxed(&dp_wait_rates.mutex))
        dp_event_record_synthetic(frame, dp_labels_of_futex(debt->class), debt->ns, waiter);
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
    struct dp_event event = dp_event_begin();
    dp_unwind_walk(dp_thread_scratch(), site ? site : &caller, &stack);
    if (dp_record_intern(DP_KIND_BLOCK, dp_labels_now(&stack) | dp_labels_of_lock(DELTAPROF_LOCK_FUTEX), &stack,
                         &wait->record)) {
        wait->kind = DELTAPROF_LOCK_FUTEX;
        wait->class = (uint16_t)dp_futex_class_of(wait->record, &may_hold);
        wait->blamed = may_hold && wait->class && word && dp_load_relaxed(&dp_wait_rates.mutex);
        wait->slot = 0;
        wait->listed = 0;
        wait->n = 1;
        wait->epoch = dp_record_epoch();
        wait->begin_ns = dp_clock_ns();
        wait->waiting = dp_waiting_begin(word, wait->kind, wait->begin_ns, wait->record, (uintptr_t)wait);
    }
    dp_event_end(event);
    if (!wait->kind || !wait->blamed)
        return;
    wait->slot = dp_contended_enter_futex(word, wait->class, wait->begin_ns, &taken);
    wait->listed = dp_waiters_add(wait->slot, wait->record, wait->begin_ns);
    dp_waiting_entered(wait->waiting, wait->slot, wait->listed);
    if (taken.ns)
        pay(&taken, DP_FRAME_UNKNOWN_HOLDER, 0);
}

/*
 * Ends the wait for the mutex profile; may move *end_ns forward. Returns the time of a cancelled wait that holders have
 * paid for.
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
        return; /* as in wait.c */
    int64_t counted_ns = dp_waiting_end(wait->waiting, wait->begin_ns), end_ns = dp_clock_ns(), paid_ns = 0;
    if (counted_ns < 0)
        return; /* taken for abandoned, and ended then */
    if (end == DELTAPROF_NOT_WAITED && counted_ns != wait->begin_ns) {
        end = DELTAPROF_TIMED_OUT; /* a report has counted it in the meantime */
        end_ns = counted_ns;
    }
    if (wait->blamed)
        paid_ns = unenter(wait, end, &end_ns);
    if (end == DELTAPROF_ACQUIRED && wait->blamed)
        remember(word);
    dp_event_count_wait(wait, end, counted_ns, end_ns, paid_ns);
}

bool deltaprof_futex_wake_begin(struct deltaprof_futex_wake *out, const void *word)
{
    struct wake *wake = (struct wake *)out;
    wake->word = (uintptr_t)word;
    if (dp_thread_is_nested(dp_thread_self(), deltaprof_stack_pointer()))
        return false;
    if (remembers(word))
        hold(word);
    unsigned n = dp_contended_wake(word, wake->debts, DEBTS_MOST);
    int64_t now = n ? dp_clock_ns() : 0;
    dp_pairing_begin(&wake->pairing);
    for (unsigned i = 0; i < n; i++)
        dp_pairing_add(&wake->pairing, i, wake->debts[i].slot, now);
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
    struct dp_share share;
    int64_t owed_ns = 0;
    for (unsigned i = 0; i < DEBTS_MOST && wake->debts[i].ns; i++)
        owed_ns += wake->debts[i].ns;
    if (dp_thread_guarded(dp_thread_self()) || !dp_event_share(owed_ns, &share))
        return;
    struct dp_event event = dp_event_begin();
    dp_unwind_walk(dp_thread_scratch(), site ? site : &caller, &stack);
    for (unsigned i = 0; i < DEBTS_MOST && wake->debts[i].ns; i++) { /* one wake, however many classes */
        int64_t n = i ? 0 : share.n, ns = dp_share_of(&share, wake->debts[i].ns);
        dp_record_id id = dp_event_record(
            DP_KIND_MUTEX, dp_labels_now(&stack) | dp_labels_of_futex(wake->debts[i].class), &stack, n, ns);
        dp_last_unlock_note(wake->word, id);
        dp_pairing_note(&wake->pairing, i, id, n, ns);
    }
    dp_event_end(event);
}
