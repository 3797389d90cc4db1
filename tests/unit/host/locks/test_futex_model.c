/* SPDX-License-Identifier: MIT */
/*
 * test_futex_model.c - every interleaving of three threads that wait on futex words and wake each other, through
 * contended.c itself: wakes of one and of all, values that change before the kernel looks, timeouts and signals, waits
 * that end for no reason, and waiters that are moved to another word; locks with priority inheritance (PI), also as the
 * word to which waiters are moved; wakes that no hook sees (the kernel wakes a waiter of a robust lock whose owner
 * died), or sees at another address (shared memory that is mapped twice); wakes of two words at once. For each class of
 * waits the books must balance to the unit.
 *
 * The kernel's part is one step each: it compares the word and puts the thread to sleep, or it takes sleepers off a
 * word. A wake changes the word first, as every lock does, so that no waiter sleeps for ever. The word of a PI lock is
 * the number of its owner, with SLEEPERS if the kernel has to be asked.
 */
#include "support/unit.h"

#include "contended_steps.h"

#include "contended_search.h"
#include "futex_scenarios.h"

/* ---- what the threads do ----------------------------------------------------------------------------------------- */

static const struct scenario *scenario;
static uint32_t value[2];
static char memory[1 << 16];
static const void *address[2];
static int64_t blocked[CLASSES], paid[CLASSES];

static void add_blocked(int class, int64_t ns)
{
    assert_true(ns >= 0);
    blocked[class] += ns;
    blocked_ns += ns;
}

static void add_paid(int class, int64_t ns)
{
    assert_true(ns >= 0);
    paid[class] += ns;
    paid_ns += ns;
}

/* Sleeps until a wake. False: the wait ended before one. */
static bool sleep_on(int word, bool timed)
{
    thread[running].blocked = word + 1;
    thread[running].timed = timed;
    step();
    bool gave_up = seen((uint64_t)thread[running].gave_up);
    thread[running].blocked = thread[running].gave_up = 0;
    return !gave_up;
}

static void end_wait(dp_contended_slot slot, int64_t begin_ns, bool woken)
{
    int class = scenario->class[running];
    int64_t end_ns = model_clock();
    add_paid(class,
             woken ? dp_contended_acquired(slot, begin_ns, &end_ns) : dp_contended_timed_out(slot, begin_ns, &end_ns));
    add_blocked(class, end_ns - begin_ns);
}

static void wait(const struct op *op)
{
    int class = scenario->class[running];
    struct dp_contended_debt taken;
    int64_t begin_ns = model_clock();
    dp_contended_slot slot = dp_contended_enter_futex(address[op->word], (unsigned)(CLASS + class), begin_ns, &taken);
    assert_true(slot && !taken.ns);
    step();
    if (seen(value[op->word])) { /* EAGAIN */
        if (mutant != LOST_SLOT)
            add_blocked(class, dp_contended_cancel(slot, begin_ns));
        return;
    }
    bool woken = sleep_on(op->word, op->what != WAIT);
    end_wait(slot, begin_ns, woken || op->what == STARTLED);
}

static void pay_for(int word)
{
    struct dp_contended_debt debts[4];
    unsigned n = dp_contended_wake(address[word], debts, 4);
    for (unsigned i = 0; i < n; i++)
        add_paid((int)debts[i].class - CLASS, debts[i].ns);
}

/* The first that sleeps on this word, -1: none. */
static int sleeper_of(int word)
{
    for (int t = 0; t < THREADS; t++)
        if (thread[t].blocked == word + 1)
            return t;
    return -1;
}

static void wake_up(int word, bool all)
{
    for (int t; (t = sleeper_of(word)) >= 0;) {
        thread[t].blocked = 0;
        if (!all)
            break;
    }
}

static void wake(const struct op *op)
{
    step();
    value[op->word] = 1;
    if (op->what == WAKE_OP)
        value[1 - op->word] = 1;
    if (op->what != OWNER_DIES)
        pay_for(op->what == WAKE_ALIAS ? 1 - op->word : op->word);
    if (op->what == WAKE_OP)
        pay_for(1 - op->word);
    step();
    wake_up(op->word, op->what == WAKE_ALL || op->what == WAKE_ALIAS);
    if (op->what == WAKE_OP)
        wake_up(1 - op->word, false);
}

/* ---- PI ---- */

static void lock_pi(const struct op *op)
{
    struct dp_contended_debt taken;
    uint32_t *word = &value[op->word], me = (uint32_t)running + 1;
    bool woken = true;
    step();
    if (!seen(*word)) {
        *word = me;
        return;
    }
    int64_t begin_ns = model_clock();
    dp_contended_slot slot =
        dp_contended_enter_futex(address[op->word], (unsigned)(CLASS + scenario->class[running]), begin_ns, &taken);
    assert_true(slot && !taken.ns);
    step();
    if (!seen(*word)) {
        *word = me;
    } else {
        *word |= SLEEPERS;
        woken = sleep_on(op->word, op->what == LOCK_PI_TIMED);
    }
    end_wait(slot, begin_ns, woken);
}

/* By a thread that is not the owner it is refused, after the hook has paid. */
static void unlock_pi(const struct op *op)
{
    uint32_t *word = &value[op->word], me = (uint32_t)running + 1;
    step();
    if (seen(*word) == me) {
        *word = 0;
        return;
    }
    pay_for(op->word);
    step();
    if (seen(*word & OWNER) != me)
        return;
    int next = sleeper_of(op->word);
    *word = 0;
    if (next >= 0) {
        thread[next].blocked = 0;
        *word = (uint32_t)next + 1;
        *word |= sleeper_of(op->word) >= 0 ? SLEEPERS : 0;
    }
}

static void move(const struct op *op)
{
    step();
    value[0] = 1;
    pay_for(0);
    step();
    for (int t = 0; t < THREADS; t++)
        if (thread[t].blocked == 1) {
            thread[t].blocked = 2;
            value[1] |= op->what == MOVE_PI ? SLEEPERS : 0; /* its owner moves them */
        }
}

static void body(int me)
{
    if (!_setjmp(context[me]))
        _longjmp(scheduler, 1);
    for (const struct op *op = scenario->ops[me]; op->what; op++) {
        begin((int)(op - scenario->ops[me]));
        if (op->what >= MOVE)
            move(op);
        else if (op->what >= WAKE_ONE)
            wake(op);
        else if (op->what == UNLOCK_PI)
            unlock_pi(op);
        else if (op->what >= LOCK_PI)
            lock_pi(op);
        else
            wait(op);
    }
    thread[me].ended = 1;
    for (;;)
        step();
}

/* ---- the model's memory ------------------------------------------------------------------------------------------ */

static unsigned choices(void)
{
    unsigned can = 0;
    for (int t = 0; t < THREADS; t++) {
        if (thread[t].ended)
            continue;
        if (!thread[t].blocked)
            can |= 1u << t;
        else if (thread[t].timed)
            can |= 1u << (t + THREADS);
    }
    return can;
}

static int n_groups(void)
{
    return group_of(address[0]) == group_of(address[1]) ? 1 : 2;
}

static _Atomic uint8_t *filter_of(int i)
{
    return &futex_filter[group_of(address[i]) / WAYS - DELTAPROF_LOCK_SETS];
}

static uint64_t state_now(void)
{
    uint64_t h = dp_hash_bytes(value, sizeof value, (uint64_t)n_clock);
    h = dp_hash_bytes(thread, sizeof thread, h);
    h = dp_hash_bytes(blocked, sizeof blocked, h);
    h = dp_hash_bytes(paid, sizeof paid, h);
    for (int i = 0; i < n_groups(); i++) {
        h = dp_hash_bytes(&slots[group_of(address[i])], GROUP_WAYS * sizeof *slots, h);
        h = dp_hash_bytes(&open_ns[group_of(address[i])], GROUP_WAYS * sizeof *open_ns, h);
        h = dp_hash_bytes((const void *)filter_of(i), GROUP_WAYS / WAYS, h);
    }
    return h | 1;
}

/* The keys stand there from the start, in the first set of each group; so nothing else of a group ever changes. */
static bool never_changes(const void *p)
{
    size_t at = (size_t)((const char *)p - (const char *)slots);
    if (p >= (const void *)futex_filter && p < (const void *)(futex_filter + sizeof futex_filter))
        return ((const char *)p - (const char *)futex_filter) % (GROUP_WAYS / WAYS) != 0;
    return p >= (const void *)slots && p < (const void *)(slots + N_SLOTS) &&
           (at % sizeof *slots == 0 || !atomic_load(&slots[at / sizeof *slots].key));
}

static void clear(void)
{
    for (int i = 0; i < n_groups(); i++) {
        memset(&slots[group_of(address[i])], 0, GROUP_WAYS * sizeof *slots);
        memset(&open_ns[group_of(address[i])], 0, GROUP_WAYS * sizeof *open_ns);
        memset((void *)filter_of(i), 0, GROUP_WAYS / WAYS);
    }
    for (int i = 0; i < 2; i++)
        for (int class = 0; class < CLASSES; class ++)
            atomic_store(&slots[group_of(address[i]) + 2 * i + class].key, futex_key_of(address[i], CLASS + class));
    memset(value, 0, sizeof value);
    memset(blocked, 0, sizeof blocked);
    memset(paid, 0, sizeof paid);
}

static bool balanced(void)
{
    int64_t open[CLASSES] = {0};
    for (int i = 0; i < n_groups(); i++)
        for (unsigned set = 0; set < GROUP_WAYS / WAYS; set++) {
            unsigned busy = 0;
            for (unsigned way = 0; way < WAYS; way++) {
                struct slot *slot = &slots[group_of(address[i]) + set * WAYS + way];
                uint64_t word = atomic_load(&slot->word), key = atomic_load(&slot->key);
                if (word & N_MASK)
                    return false;
                if (word)
                    open[(key & DP_FUTEX_CLASS_MASK) - CLASS] += owed_at(word, 0);
                busy += word != 0;
            }
            if (atomic_load(filter_of(i) + set) != busy)
                return false;
        }
    return paid[0] + open[0] == blocked[0] && paid[1] + open[1] == blocked[1];
}

/* ---- the searches ------------------------------------------------------------------------------------------------ */

static bool search(const struct scenario *which)
{
    scenario = which;
    return explore(which->name);
}

static int two_words_in_one_group(void **state)
{
    assert_int_equal(dp_contended_init(), 0);
    is_still = never_changes;
    address[0] = address[1] = memory;
    for (size_t i = 4; i < sizeof memory && address[1] == memory; i += 4)
        if (group_of(memory + i) == group_of(memory))
            address[1] = memory + i;
    return address[1] == memory;
}

TEST(every_interleaving_balances)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_false(search(all[i]));
        assert_true(n_ends > 0);
        assert_int_equal(most_credit, 0);
    }
}

TEST(the_search_finds_broken_steps)
{
    mutant = BLIND_CAS;
    assert_true(search(&chain));
    assert_true(search(&pi));
    mutant = TORN_ADD;
    assert_true(search(&all_woken));
    assert_true(search(&two_at_once));
    mutant = FORGOTTEN_CAS;
    assert_true(search(&all_woken));
    mutant = LOST_SLOT;
    assert_true(search(&all_woken));
    mutant = NONE;
}

UNIT(two_words_in_one_group, NULL)
