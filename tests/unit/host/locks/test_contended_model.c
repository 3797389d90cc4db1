/* SPDX-License-Identifier: MIT */
/*
 * test_contended_model.c - every interleaving of three threads through contended.c itself, not through a model of it.
 *
 * contended_steps.h hands control to a scheduler before each step of it, and contended_search.h runs all schedules.
 * Where all threads have ended, the books must balance to the unit. The clock is a fixed sequence without a pattern, so
 * that wrong sums do not agree.
 *
 * The same search must find fault with contended.c when its atomic steps are torn, blind or forgotten: a search that
 * cannot fail proves nothing.
 */
#include "support/unit.h"

#include "contended_steps.h"

#include "contended_search.h"

/* ---- what the threads do ---------------------------------------------------------------------------------------- */

enum { LOCK = 1, TIMED, UNLOCK, TRY, GIVE_BACK, SLEEP };
struct op {
    int what, lock;
};
struct scenario {
    const char *name;
    struct op ops[THREADS][8];
};

static const struct scenario *scenario;
static int owner[2]; /* thread + 1, of each lock */
static char lock_memory[1 << 16];
static const void *lock_address[2];

/* A step only where a scenario asks for it: else a slot is found and entered in one. */
static bool keys_are_steps;
static bool is_still_key(const void *p)
{
    size_t at = (size_t)((const char *)p - (const char *)slots);
    return !keys_are_steps && p >= (const void *)slots && p < (const void *)(slots + N_SLOTS) &&
           at % sizeof *slots == 0;
}

static int64_t open_of[2]; /* waits of each lock minus what was paid for them: each has a kind of its own */

static unsigned kind_of(int lock)
{
    return 1 + (unsigned)lock;
}

static void wait_of(int lock, int64_t ns)
{
    blocked_ns += ns;
    open_of[lock] += ns;
}

static void payment_of(int lock, int64_t ns)
{
    paid_ns += ns;
    open_of[lock] -= ns;
}

static void lock(const struct op *op)
{
    step();
    if (!seen((uint64_t)owner[op->lock])) {
        owner[op->lock] = running + 1;
        return;
    }
    if (op->what == TRY)
        return;
    int64_t begin_ns = model_clock();
    dp_contended_slot slot = dp_contended_enter(lock_address[op->lock], kind_of(op->lock), begin_ns);
    thread[running].blocked = op->lock + 1;
    thread[running].timed = op->what != LOCK;
    step();
    bool gave_up = seen((uint64_t)thread[running].gave_up) || op->what == GIVE_BACK;
    thread[running].blocked = thread[running].gave_up = 0;
    if (!gave_up)
        owner[op->lock] = running + 1;
    int64_t end_ns = model_clock();
    if (!slot) {
        payment_of(op->lock, end_ns - begin_ns); /* [unknown holder] */
    } else if (mutant == LOST_SLOT) {
        dp_contended_cancel(slot, begin_ns);
    } else if (op->what == GIVE_BACK) {
        wait_of(op->lock, dp_contended_cancel(slot, begin_ns)); /* what was paid for it was waiting time */
        return;
    } else if (gave_up) {
        payment_of(op->lock, dp_contended_timed_out(slot, begin_ns, &end_ns));
    } else {
        payment_of(op->lock, dp_contended_acquired(slot, begin_ns, &end_ns)); /* [hand-over] */
    }
    assert_true(end_ns >= begin_ns);
    wait_of(op->lock, end_ns - begin_ns);
}

static void unlock(const struct op *op)
{
    if (owner[op->lock] != running + 1)
        return; /* timed out or tried in vain */
    const void *address = lock_address[op->lock];
    step();
    int64_t owed_ns[DP_CONTENDED_KINDS] = {0}, sum = 0;
    dp_contended_slot places[DP_CONTENDED_KINDS] = {0};
    if (seen(deltaprof_lock_may_have_waiters(address)))
        sum = dp_contended_unlock(address, owed_ns, places);
    unsigned kind = kind_of(op->lock);
    assert_true(sum >= 0 && sum == owed_ns[kind] && !sum == !places[kind]);
    payment_of(op->lock, sum);
    step();
    owner[op->lock] = 0;
}

/* The holder sleeps so long that what the waiters are owed wraps, and each other thread waits or has ended. */
static void sleep_for_long(const struct op *op)
{
    if (owner[op->lock] != running + 1)
        return;
    thread[running].sleeps = 1;
    step();
    thread[running].sleeps = 0;
    slept_ns += INT64_C(3) << (S_BITS - 1);
}

static void body(int me)
{
    if (!_setjmp(context[me]))
        _longjmp(scheduler, 1);
    for (const struct op *op = scenario->ops[me]; op->what; op++) {
        begin((int)(op - scenario->ops[me]));
        if (op->what == UNLOCK)
            unlock(op);
        else if (op->what == SLEEP)
            sleep_for_long(op);
        else
            lock(op);
    }
    thread[me].ended = 1;
    for (;;)
        step();
}

/* ---- the search ------------------------------------------------------------------------------------------------- */

static uint64_t state_now(void)
{
    uint64_t h = dp_hash_bytes(owner, sizeof owner, (uint64_t)n_clock);
    h = dp_hash_bytes(thread, sizeof thread, h);
    h = dp_hash_mix(h ^ (uint64_t)blocked_ns);
    h = dp_hash_mix(h ^ (uint64_t)paid_ns);
    h = dp_hash_bytes(open_of, sizeof open_of, h);
    for (int i = 0; i < 2; i++) {
        unsigned set = DELTAPROF_LOCK_SET(lock_address[i]);
        h = dp_hash_bytes(&slots[set * WAYS], WAYS * sizeof *slots, h + deltaprof_lock_filter[set]);
        h = dp_hash_bytes(&open_ns[set * WAYS], WAYS * sizeof *open_ns, h + (uint64_t)slept_ns);
    }
    return h | 1;
}

/* No thread but t is between two of its steps: they wait, or have ended. */
static bool others_wait(int t)
{
    for (int other = 0; other < THREADS; other++)
        if (other != t && !thread[other].ended && !thread[other].blocked)
            return false;
    return true;
}

/* Choices of this moment: thread t goes on, or (t + THREADS) gives up its wait. */
static unsigned choices(void)
{
    unsigned can = 0;
    for (int t = 0; t < THREADS; t++) {
        if (thread[t].ended || (thread[t].sleeps && !others_wait(t)))
            continue;
        if (!thread[t].blocked || !owner[thread[t].blocked - 1])
            can |= 1u << t;
        if (thread[t].blocked && thread[t].timed)
            can |= 1u << (t + THREADS);
    }
    return can;
}

static void clear(void)
{
    memset(owner, 0, sizeof owner);
    memset(open_of, 0, sizeof open_of);
    for (int i = 0; i < 2; i++) {
        unsigned set = DELTAPROF_LOCK_SET(lock_address[i]);
        memset(&slots[set * WAYS], 0, WAYS * sizeof *slots);
        memset(&open_ns[set * WAYS], 0, WAYS * sizeof *open_ns);
        deltaprof_lock_filter[set] = 0;
    }
}

/* All have ended: what was paid for each lock and its waits differ by what still stands in its words, a debt (S < 0) or
 * a credit, and by nothing else. */
static bool balanced(void)
{
    int64_t open[2] = {0};
    for (int i = 0; i < (lock_address[0] == lock_address[1] ? 1 : 2); i++) {
        unsigned set = DELTAPROF_LOCK_SET(lock_address[i]);
        unsigned busy = 0;
        if (i == 1 && set == DELTAPROF_LOCK_SET(lock_address[0]))
            break;
        for (int way = 0; way < WAYS; way++) {
            const struct slot *slot = &slots[set * WAYS + way];
            uint64_t word = atomic_load(&slot->word), key = atomic_load(&slot->key);
            if (word & N_MASK || key >= PIN)
                return false;
            if (word)
                open[(key & 0xff) - 1] += owed_at(word, 0);
            busy += word != 0;
        }
        if (deltaprof_lock_filter[set] != busy)
            return false;
    }
    return open[0] == open_of[0] && open[1] == open_of[1];
}

static bool search(const struct scenario *which)
{
    scenario = which;
    return explore(which->name);
}

/* ---- scenarios -------------------------------------------------------------------------------------------------- */

#define TURN(kind, lock) \
    {kind, lock},        \
    {                    \
        UNLOCK, lock     \
    }

static const struct scenario one_lock = {"three threads, one lock",
                                         {{TURN(LOCK, 0)}, {TURN(LOCK, 0)}, {TURN(LOCK, 0)}}};
static const struct scenario twice = {"two turns against one", {{TURN(LOCK, 0), TURN(LOCK, 0)}, {TURN(LOCK, 0)}}};
static const struct scenario timed = {"timeouts", {{TURN(LOCK, 0)}, {TURN(TIMED, 0)}, {TURN(TIMED, 0)}}};
static const struct scenario mixed = {"a timeout, an acquisition, then a new holder",
                                      {{TURN(LOCK, 0)}, {TURN(TIMED, 0)}, {TURN(LOCK, 0)}}};
static const struct scenario taken = {"a wait taken back", {{TURN(LOCK, 0)}, {TURN(GIVE_BACK, 0)}, {TURN(LOCK, 0)}}};
static const struct scenario nested = {
    "two locks of one set", {{{LOCK, 0}, {LOCK, 1}, {UNLOCK, 1}, {UNLOCK, 0}}, {TURN(LOCK, 0)}, {TURN(LOCK, 1)}}};
static const struct scenario successive = {"a slot that gets another lock",
                                           {{{LOCK, 0}, {UNLOCK, 0}}, {TURN(LOCK, 0), TURN(LOCK, 1)}, {TURN(LOCK, 1)}}};
static const struct scenario unlocked_late = {
    "a slot that gets another lock at an unlock",
    {{TURN(LOCK, 0)}, {{LOCK, 1}, {GIVE_BACK, 0}, {UNLOCK, 0}, {UNLOCK, 1}}, {TURN(LOCK, 1)}}};
static const struct scenario barging = {"a try that gets in between",
                                        {{TURN(LOCK, 0)}, {TURN(TRY, 0)}, {TURN(LOCK, 0)}}};

static const struct scenario months = {"a holder for months",
                                       {{{LOCK, 0}, {SLEEP, 0}, {UNLOCK, 0}}, {TURN(LOCK, 0)}, {TURN(LOCK, 0)}}};
static const struct scenario gave_up = {"a holder for months, and one that gives up",
                                        {{{LOCK, 0}, {SLEEP, 0}, {UNLOCK, 0}}, {TURN(TIMED, 0)}, {TURN(LOCK, 0)}}};

static const struct scenario *const all[] = {&one_lock,   &twice,         &timed,   &mixed,  &taken,  &nested,
                                             &successive, &unlocked_late, &barging, &months, &gave_up};

static int two_locks_in_one_set(void **state)
{
    assert_int_equal(dp_contended_init(), 0);
    is_still = is_still_key;
    lock_address[0] = lock_memory;
    for (size_t i = 8; i < sizeof lock_memory; i += 8)
        if (DELTAPROF_LOCK_SET(lock_memory + i) == DELTAPROF_LOCK_SET(lock_memory)) {
            lock_address[1] = lock_memory + i;
            return 0;
        }
    lock_address[1] = lock_memory + 8;
    return 0;
}

TEST(every_interleaving_balances)
{
    mutant = NONE;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        sums_are_steps = all[i] == &months || all[i] == &twice;
        keys_are_steps = all[i] == &nested || all[i] == &successive || all[i] == &unlocked_late ||
                         all[i] == &one_lock || all[i] == &barging;
        assert_false(search(all[i]));
        assert_true(n_ends > 0);
        /* Only a timeout after the last unlock leaves something to pay, and nothing is ever paid in vain. */
        assert_int_equal(most_open > 0, all[i] == &timed || all[i] == &mixed || all[i] == &gave_up);
        assert_int_equal(most_credit, 0);
    }
}

TEST(the_search_finds_broken_steps)
{
    keys_are_steps = true;
    mutant = BLIND_CAS;
    assert_true(search(&one_lock));
    mutant = TORN_ADD;
    assert_true(search(&one_lock));
    mutant = FORGOTTEN_CAS;
    assert_true(search(&taken));
    mutant = LOST_SLOT;
    assert_true(search(&one_lock));
    mutant = UNPINNED;
    assert_true(search(&nested));
    mutant = LOST_SUM;
    assert_true(search(&months));
    mutant = NONE;
}

UNIT(two_locks_in_one_set, NULL)
