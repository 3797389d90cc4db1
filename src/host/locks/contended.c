/* SPDX-License-Identifier: MIT */
/*
 * host/locks/contended.c - accounts waiting time to holders, in one word for each contended lock, so that both lock
 * profiles have the same total.
 *
 * A wait is [s, e]. The block profile gives e - s to the waiter. The mutex profile gives the same time to the holders
 * meanwhile: each holder that unlocks pays for the time since the last unlock. No list of waiters is needed for that.
 * With n waiters whose waits are paid up to the times c1..cn ("cut times", at first their s),
 *
 *     owed(t) = (t - c1) + ... + (t - cn) = n*t - S,    S = c1 + ... + cn
 *
 * so n (12 bits, low) and S (52 bits, modulo 2^52 ns) in one 64-bit word are enough, and each event is one atomic step:
 *
 *     enter at s         n + 1, S + s           one add
 *     unlock at t        S = n*t                CAS; the holder that unlocks pays owed(t), if it is above 0
 *     acquired at e      n - 1, S = (n-1)*e     CAS; owed(e), if above 0, has no holder: [hand-over]
 *     timed out at e     n - 1, S - e           owed(e) is the same before and after: it stays as a debt in the word,
 *                                               with n = 0 too (S < 0), and the next unlock pays it
 *     cancelled          n - 1, S - s           CAS; what was paid for it meanwhile stays in the word as a credit, for
 *                                               the others; the last waiter takes it along as waiting time of its own
 *
 * An example, in ns. A holds the lock from the start; B waits from 2 to 9, C from 5 to 13:
 *
 *     time  event          n  S        owed        who pays
 *        2  B enters       1  2
 *        5  C enters       2  7
 *        8  A unlocks      2  2*8=16   2*8-7=9     A: 6 of B's wait and 3 of C's
 *        9  B acquires     1  1*9=9    2*9-16=2    no holder: 1 of each wait is [hand-over]
 *       12  B unlocks      1  1*12=12  1*12-9=3    B: 3 of C's wait
 *       13  C acquires     0  0        1*13-12=1   no holder: the last 1 of C's wait is [hand-over]
 *
 * The block profile has 7 of B and 8 of C. The mutex profile has 9 of A, 3 of B and 3 of [hand-over]. Both are 15.
 *
 * Invariants, for each word, at every moment, in any order of events and also if several locks use the word:
 *  1. paid + owed(t) = sum over ended waits of (e - s) + sum over waits under way of (t - s).    Each line of the table
 *     above changes both sides by the same amount, and each is one atomic step on one word.
 *  2. The word is 0 if and only if no thread waits and nothing is owed; then paid = sum of (e - s): equal profiles.
 *  3. No negative time is ever paid. If an unlock or an acquisition would pay one (its clock was read earlier, but
 *     another event changed the word first), it pays nothing and does not change S.
 *  4. The last waiter leaves no credit: with n = 1, S is its own cut time, and if e < S, the wait ends at S. Another
 *     thread read the time S during this wait, so e moves only by the time between two clock reads. If the difference
 *     is more than SKEW_MAX, the owed time has wrapped, and e is not changed. So a missed event, a word used by two
 *     locks, or a lock with two words changes only which holder pays, never the total.
 *
 * S is modulo 2^52, and the owed time is read as a number of [-2^48, 2^52 - 2^48): up to 48 days, shared by the
 * waiters, may be owed at once. If more is owed, a payment sees only the remainder: multiples of 2^52 ns are missing
 * from it. So that they are not lost, `open_ns` of a slot sums, in 64 bits, the waits that ended there minus the time
 * paid for them. When the last waiter leaves, this is the time still owed; if it is larger than the word's by a
 * multiple of 2^52, that multiple goes to [hand-over]. The sum may lag behind the word by amounts that other threads
 * have not added yet, so the difference is rounded to the nearest multiple; it would be wrong only with a lag of 26
 * days of waiting.
 *
 * n: a wait that finds n = 2048 gets no slot, so that 2047 more may enter between a load and its add.
 *
 * Table: sets of four slots {key, word}, one cache line each, found by the lock's address. A key is address and kind of
 * wait, so that a rwlock's readers and writers are separate. A slot whose word is 0 is free, and the next lock may take
 * it. Slots are never freed. Two waiters may claim two slots for one lock; an unlock visits the whole set.
 *
 * A slot must not change its key between the moment when a waiter finds it and the moment when it enters the word: its
 * time would count for a holder of another lock, perhaps of another kind, so that the profiles would differ in the sum
 * of each of the two kinds. So the five highest bits of a key count the threads that are about to enter: [KEY]
 *
 *     waiter     key + PIN, if it is the right one     CAS, acquire
 *                enters the word                       add, release
 *                key - PIN                             release
 *     claimer    finds a key with no pin and a word of 0; key = CLAIMED          CAS, acquire
 *                the word is 0: key = its own + PIN, and it enters; else the old key again          release
 *     holder     reads the key, the word (acquire), the key again: the word is that key's, if both are the same
 *
 * A claimed key cannot be pinned, and a waiter that had pinned it before has entered its word. So a claimer that reads
 * a word of 0 after the claim is the slot's only user. For the holder: a word is changed back to 0 before its key
 * changes, and a word that was not 0 does not come back, for it has times in it. So if the payment's CAS goes through,
 * the key has stayed.
 *
 * Filter: one byte for each set, the number of its words that are not 0. A thread that changes a word from or to 0
 * updates it afterwards; a holder that reads it in between sees no waiter: a missed event. An uncontended unlock loads
 * only this byte. Counts may wrap; increments and decrements still add up, so after all updates the count is right, in
 * any order.
 *
 * Futex words have a part of the table to themselves, where four sets make a group. A key there is the word's address
 * and the class of the wait (futex_class.h): waits of one word that may turn out to be of different kinds must not
 * share a slot, and before the kinds are known each waiting stack is a class. A futex is never destroyed, so debts of
 * timeouts may fill a group: a slot with a debt and without waiters is then taken, and its debt is returned for
 * [unknown holder].
 *
 * Except for keys all atomics are relaxed: no data is published through these words, and each result depends only on
 * the modification order of its own word. Progress: a CAS fails only where another thread's event on the same set went
 * through; a waiter that fails PIN_TRIES times gets no slot.
 */
#include "host/locks/contended.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/stats.h"

#include <deltaprof/locks.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

#define N_BITS 12
#define N_MASK ((UINT64_C(1) << N_BITS) - 1)
#define N_MOST 2048
#define WAYS   DP_CONTENDED_WAYS

#define GROUPS     DP_CONTENDED_GROUPS
#define GROUP_WAYS DP_CONTENDED_GROUP_WAYS
#define N_SLOTS    DP_CONTENDED_SLOTS

#define S_BITS   (64 - N_BITS)
#define PIN      (UINT64_C(1) << 59)
#define KEY_MASK (PIN - 1)
#define CLAIMED  UINT64_MAX

enum { PIN_TRIES = 64 };

#define CREDIT_MAX (INT64_C(1) << (S_BITS - 4))
#define SKEW_MAX   (INT64_C(1) << 42) /* about an hour */

struct slot {
    _Atomic uint64_t key; /* address << 8 | kind, or address << 12 | class, and pins; 0: never used */
    _Atomic uint64_t word;
};

DP_LARGE uint8_t deltaprof_lock_filter[DELTAPROF_LOCK_SETS];
static _Atomic uint8_t *const filter = (_Atomic uint8_t *)deltaprof_lock_filter;
static DP_LARGE _Alignas(4) _Atomic uint8_t futex_filter[GROUPS * GROUP_WAYS / WAYS];
static _Atomic bool entered;     /* a thread has waited, since the fork; relaxed: for the same thread, or its child */
static struct slot *slots;       /* WAYS to a set; the sets of locks, then those of futex words */
static _Atomic int64_t *open_ns; /* for each slot: the waits that ended there minus the time paid for them */

static uint64_t key_of(const void *lock, unsigned kind)
{
    return ((uint64_t)(uintptr_t)lock << 8 | kind) & KEY_MASK;
}

static uint64_t futex_key_of(const void *word, unsigned class)
{
    return ((uint64_t)(uintptr_t)word << DP_FUTEX_CLASS_BITS | class) & KEY_MASK;
}

/* The first slot of a futex word's group. */
static unsigned group_of(const void *word)
{
    return DELTAPROF_LOCK_SETS * WAYS + DELTAPROF_LOCK_SET(word) % GROUPS * GROUP_WAYS;
}

/* owed(t) of a word; negative: a credit. */
static int64_t owed_at(uint64_t word, int64_t t)
{
    uint64_t owed = ((word & N_MASK) * (uint64_t)t) - (word >> N_BITS) + (uint64_t)CREDIT_MAX;
    return (int64_t)(owed & (UINT64_MAX >> N_BITS)) - CREDIT_MAX;
}

static uint64_t word_of(uint64_t n, int64_t t)
{
    return n | (n * (uint64_t)t) << N_BITS;
}

/* n and S of one wait with cut time t; to add or subtract. */
static uint64_t one_at(int64_t t)
{
    return ((uint64_t)t << N_BITS) + 1;
}

/* The word of a slot was changed. */
static void moved(const struct slot *slot, uint64_t old, uint64_t new)
{
    if (!old == !new)
        return;
    size_t set = (size_t)(slot - slots) / WAYS;
    dp_add_relaxed(set < DELTAPROF_LOCK_SETS ? &filter[set] : &futex_filter[set - DELTAPROF_LOCK_SETS], new ? 1 : -1);
}

int dp_contended_init(void)
{
    if (!open_ns)
        open_ns = dp_mem_table(N_SLOTS * sizeof *open_ns);
    if (open_ns && !slots)
        slots = dp_mem_table(N_SLOTS * sizeof *slots);
    return slots ? 0 : -ENOMEM;
}

/* The key of a slot, without its pins. */
static uint64_t key_in(const struct slot *slot)
{
    return dp_load_relaxed(&slot->key) & KEY_MASK;
}

/* Whether the slot has this key, which then stays until the caller unpins it. */
static bool pin(struct slot *slot, uint64_t key)
{
    uint64_t found = dp_load_relaxed(&slot->key);
    for (int tries = 0; tries < PIN_TRIES && (found & KEY_MASK) == key && found / PIN < CLAIMED / PIN; tries++)
        if (dp_cas_acquire(&slot->key, &found, found + PIN)) /* [KEY] */
            return true;
    return false;
}

static void unpin(struct slot *slot)
{
    dp_sub_release(&slot->key, PIN); /* [KEY] the next claimer sees the word that was entered */
}

/* Gives a slot, which had the key `old` and a word of 0, this key and one pin. */
static bool claim(struct slot *slot, uint64_t old, uint64_t key)
{
    if (!dp_cas_acquire(&slot->key, &old, CLAIMED)) /* [KEY] */
        return false;
    bool is_free = !dp_load_relaxed(&slot->word);
    dp_store_release(&slot->key, is_free ? key + PIN : old); /* [KEY] nobody enters before the word was read */
    return is_free;
}

/*
 * The slot of key among n, or a free one that gets the key; pinned. NULL: all are in use, or other threads took WAYS
 * free ones first.
 */
static struct slot *slot_for(struct slot *set, unsigned n, uint64_t key)
{
    for (int tries = 0; tries < WAYS; tries++) {
        struct slot *idle = NULL;
        uint64_t idle_key = 0;
        for (struct slot *slot = set; slot < set + n; slot++) {
            uint64_t found = dp_load_relaxed(&slot->key);
            if ((found & KEY_MASK) == key && pin(slot, key))
                return slot;
            if (!idle && found < PIN && !dp_load_relaxed(&slot->word)) {
                idle = slot;
                idle_key = found;
            }
        }
        if (idle && claim(idle, idle_key, key))
            return idle;
    }
    return NULL;
}

/* slot: pinned, or NULL. */
static dp_contended_slot enter(struct slot *slot, int64_t begin_ns)
{
    if (!dp_load_relaxed(&entered))
        dp_store_relaxed(&entered, true);
    bool is_full = slot && (dp_load_relaxed(&slot->word) & N_MASK) >= N_MOST;
    if (is_full)
        unpin(slot);
    if (!slot || is_full) {
        dp_stats_add(DP_STAT_LOCKS_FULL, 1);
        return 0;
    }
    uint64_t old = dp_add_release(&slot->word, one_at(begin_ns)); /* [KEY] a holder that sees it sees the key, too */
    unpin(slot);
    moved(slot, old, old + one_at(begin_ns));
    return (dp_contended_slot)(slot - slots) + 1;
}

dp_contended_slot dp_contended_enter(const void *lock, unsigned kind, int64_t begin_ns)
{
    return enter(slots ? slot_for(&slots[DELTAPROF_LOCK_SET(lock) * WAYS], WAYS, key_of(lock, kind)) : NULL, begin_ns);
}

/* Empties a slot of this group that has a debt and no waiters. False: there is none. */
static bool take_debt(struct slot *group, struct dp_contended_debt *debt)
{
    for (struct slot *slot = group; slot < group + GROUP_WAYS; slot++) {
        uint64_t key = key_in(slot), old = dp_load_acquire(&slot->word); /* [KEY] */
        int64_t owed = owed_at(old, 0);
        if (!old || (old & N_MASK) || owed <= 0 || key_in(slot) != key || !dp_cas_relaxed(&slot->word, &old, 0))
            continue;
        moved(slot, old, 0);
        dp_sub_relaxed(&open_ns[slot - slots], owed);
        *debt = (struct dp_contended_debt){owed, (unsigned)(key & DP_FUTEX_CLASS_MASK), 0};
        return true;
    }
    return false;
}

/* A slot of this word, of any class; pinned. NULL: none. */
static struct slot *slot_of_word(struct slot *group, const void *word)
{
    for (struct slot *slot = group; slot < group + GROUP_WAYS; slot++) {
        uint64_t key = key_in(slot);
        if ((key & ~DP_FUTEX_CLASS_MASK) == futex_key_of(word, 0) && pin(slot, key))
            return slot;
    }
    return NULL;
}

dp_contended_slot dp_contended_enter_futex(const void *word, unsigned class, int64_t begin_ns,
                                           struct dp_contended_debt *taken)
{
    struct slot *group = slots ? &slots[group_of(word)] : NULL;
    struct slot *slot = group ? slot_for(group, GROUP_WAYS, futex_key_of(word, class)) : NULL;
    taken->ns = 0;
    if (group && !slot && take_debt(group, taken))
        slot = slot_for(group, GROUP_WAYS, futex_key_of(word, class));
    if (group && !slot) /* so many classes before their kind is known are most likely of one kind */
        slot = slot_of_word(group, word);
    return enter(slot, begin_ns);
}

/*
 * A wait ended with ns not paid yet, and left this word. Returns the time that the word lost by wrapping, for
 * [hand-over].
 */
static int64_t ended(dp_contended_slot number, int64_t ns, uint64_t word)
{
    _Atomic int64_t *open = &open_ns[number - 1];
    int64_t now = dp_add_relaxed(open, ns) + ns;
    if (word & N_MASK)
        return 0;
    int64_t lost = (((now - owed_at(word, 0)) >> (S_BITS - 1)) + 1) >> 1; /* in 2^S_BITS, rounded */
    lost *= INT64_C(1) << S_BITS;
    return lost > 0 && dp_cas_relaxed(open, &now, now - lost) ? lost : 0;
}

int64_t dp_contended_acquired(dp_contended_slot number, int64_t begin_ns, int64_t *end_ns)
{
    struct slot *slot = &slots[number - 1];
    int64_t owed, end;
    uint64_t new, old = dp_load_relaxed(&slot->word);
    do {
        uint64_t n = old & N_MASK;
        end = *end_ns;
        owed = owed_at(old, end);
        if (owed <= 0 && owed > -SKEW_MAX && n == 1)
            end -= owed; /* invariant 4 */
        new = owed > 0 ? word_of(n - 1, end) : old - one_at(end);
    } while (!dp_cas_relaxed(&slot->word, &old, new));
    moved(slot, old, new);
    *end_ns = end;
    owed = owed > 0 ? owed : 0;
    return owed + ended(number, end - begin_ns - owed, new);
}

int64_t dp_contended_timed_out(dp_contended_slot number, int64_t begin_ns, int64_t *end_ns)
{
    struct slot *slot = &slots[number - 1];
    int64_t end;
    uint64_t new, old = dp_load_relaxed(&slot->word);
    do {
        int64_t owed = owed_at(old, *end_ns);
        end = *end_ns - (owed < 0 && owed > -SKEW_MAX && (old & N_MASK) == 1 ? owed : 0); /* invariant 4 */
        new = old - one_at(end);
    } while (!dp_cas_relaxed(&slot->word, &old, new));
    moved(slot, old, new);
    *end_ns = end;
    return ended(number, end - begin_ns, new);
}

int64_t dp_contended_cancel(dp_contended_slot number, int64_t begin_ns)
{
    struct slot *slot = &slots[number - 1];
    int64_t paid;
    uint64_t new, old = dp_load_relaxed(&slot->word);
    do {
        paid = (old & N_MASK) == 1 ? -owed_at(old, begin_ns) : 0;
        if (paid < 0 || paid >= SKEW_MAX)
            paid = 0;
        new = old - one_at(begin_ns + paid);
    } while (!dp_cas_relaxed(&slot->word, &old, new));
    moved(slot, old, new);
    if (paid)
        dp_add_relaxed(&open_ns[slot - slots], paid);
    return paid;
}

/* The holder of the waiters of this key unlocks at *now (0: not read yet): the time that it owes, 0 if nothing. */
static int64_t pay(struct slot *slot, uint64_t key, int64_t *now)
{
    uint64_t new, old = dp_load_relaxed(&slot->word);
    int64_t owed;
    do {
        dp_fence_acquire(); /* [KEY] */
        if (!old || key_in(slot) != key)
            return 0;
        if (!*now)
            *now = dp_clock_ns();
        owed = owed_at(old, *now);
        new = word_of(old & N_MASK, *now);
    } while (owed > 0 && !dp_cas_relaxed(&slot->word, &old, new));
    if (owed <= 0)
        return 0;
    moved(slot, old, new);
    dp_sub_relaxed(&open_ns[slot - slots], owed);
    return owed;
}

int64_t dp_contended_unlock(const void *lock, int64_t owed_ns[DP_CONTENDED_KINDS],
                            dp_contended_slot numbers[DP_CONTENDED_KINDS])
{
    unsigned set = DELTAPROF_LOCK_SET(lock);
    int64_t sum = 0, now = 0;
    if (!slots)
        return 0;
    for (struct slot *slot = &slots[set * WAYS]; slot < &slots[(set + 1) * WAYS]; slot++) {
        uint64_t key = key_in(slot);
        if (key >> 8 != key_of(lock, 0) >> 8)
            continue;
        int64_t owed = pay(slot, key, &now);
        owed_ns[(key & 0xff) % DP_CONTENDED_KINDS] += owed;
        if (owed)
            numbers[(key & 0xff) % DP_CONTENDED_KINDS] = (dp_contended_slot)(slot - slots) + 1;
        sum += owed;
    }
    return sum;
}

unsigned dp_contended_wake(const void *word, struct dp_contended_debt *debts, unsigned n_most)
{
    unsigned first = group_of(word), n = 0;
    const _Atomic uint8_t *waiting = &futex_filter[first / WAYS - DELTAPROF_LOCK_SETS];
    int64_t now = 0;
    unsigned any = 0;
    for (unsigned i = 0; i < GROUP_WAYS / WAYS; i++)
        any |= dp_load_relaxed(&waiting[i]);
    if (!any || !slots)
        return 0;
    for (struct slot *slot = &slots[first]; n < n_most && slot < &slots[first + GROUP_WAYS]; slot++) {
        uint64_t key = key_in(slot);
        if ((key & ~DP_FUTEX_CLASS_MASK) != futex_key_of(word, 0))
            continue;
        debts[n].ns = pay(slot, key, &now);
        debts[n].class = (unsigned)(key & DP_FUTEX_CLASS_MASK);
        debts[n].slot = (dp_contended_slot)(slot - slots) + 1;
        n += debts[n].ns > 0;
    }
    return n;
}

bool dp_contended_is_in_place(const struct dp_contended_place *place)
{
    bool is_futex = place->slot > DELTAPROF_LOCK_SETS * WAYS;
    uint64_t key = is_futex ? futex_key_of(place->lock, place->class) : key_of(place->lock, place->class);
    return key_in(&slots[place->slot - 1]) == key;
}

unsigned dp_contended_classes(const void *word, unsigned *classes, unsigned n_most)
{
    unsigned n = 0, first = group_of(word);
    for (unsigned i = first; slots && n < n_most && i < first + GROUP_WAYS; i++) {
        uint64_t key = key_in(&slots[i]);
        if ((key & ~DP_FUTEX_CLASS_MASK) == futex_key_of(word, 0))
            classes[n++] = (unsigned)(key & DP_FUTEX_CLASS_MASK);
    }
    return n;
}

DP_IN_CHILD void dp_contended_fork_child(void)
{
    if (!dp_load_relaxed(&entered))
        return; /* nothing was written */
    dp_store_relaxed(&entered, false);
    for (unsigned set = 0; set < DELTAPROF_LOCK_SETS; set++)
        if (dp_load_relaxed(&filter[set]))
            dp_store_relaxed(&filter[set], 0);
    for (unsigned set = 0; set < sizeof futex_filter; set++)
        if (dp_load_relaxed(&futex_filter[set]))
            dp_store_relaxed(&futex_filter[set], 0);
    if (!slots)
        return;
    madvise(slots, N_SLOTS * sizeof *slots, MADV_DONTNEED);
    madvise(open_ns, N_SLOTS * sizeof *open_ns, MADV_DONTNEED);
}
