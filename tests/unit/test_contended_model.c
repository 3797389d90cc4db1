/* SPDX-License-Identifier: MIT */
/*
 * test_contended_model.c - every interleaving of three threads through contended.c itself, not through a model of it.
 *
 * contended_steps.h hands control to a scheduler before each step of it. A schedule is a list of choices; the search
 * runs them all, depth first, each from the start, and leaves a run when it reaches a state that it has seen. A state
 * is the shared memory with, for each thread, where it stands and all that it has read since it began its present
 * operation; its code being deterministic, that says what it will do. Where all threads have ended, the books must
 * balance to the unit. The clock is a fixed sequence without a pattern, so that wrong sums do not agree.
 *
 * The same search must find fault with contended.c when its atomic steps are torn, blind or forgotten: a search that
 * cannot fail proves nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "contended_steps.h"

#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

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
static int64_t blocked_ns, paid_ns; /* block profile, mutex profile */

/* A new operation: of what was read, only what it keeps still matters. */
static void begin(int at)
{
    thread[running].at = at;
    thread[running].read = 0;
    thread[running].steps = 0;
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
    dp_contended_place place = dp_contended_enter(lock_address[op->lock], 1, begin_ns);
    thread[running].blocked = op->lock + 1;
    thread[running].timed = op->what != LOCK;
    step();
    bool gave_up = seen((uint64_t)thread[running].gave_up) || op->what == GIVE_BACK;
    thread[running].blocked = thread[running].gave_up = 0;
    if (!gave_up)
        owner[op->lock] = running + 1;
    int64_t end_ns = model_clock();
    if (!place) {
        paid_ns += end_ns - begin_ns; /* [unknown holder] */
    } else if (mutant == LOST_PLACE) {
        dp_contended_cancel(place, begin_ns);
    } else if (op->what == GIVE_BACK) {
        dp_contended_cancel(place, begin_ns);
        return;
    } else if (gave_up) {
        paid_ns += dp_contended_timed_out(place, begin_ns, &end_ns);
    } else {
        paid_ns += dp_contended_acquired(place, begin_ns, &end_ns); /* [hand-over] */
    }
    assert_true(end_ns >= begin_ns);
    blocked_ns += end_ns - begin_ns;
}

static void unlock(const struct op *op)
{
    if (owner[op->lock] != running + 1)
        return; /* timed out or tried in vain */
    const void *address = lock_address[op->lock];
    step();
    int64_t owed_ns[DP_CONTENDED_KINDS] = {0}, sum = 0;
    if (seen(deltaprof_lock_may_have_waiters(address)))
        sum = dp_contended_release(address, owed_ns);
    assert_true(sum >= 0 && sum == owed_ns[1]);
    paid_ns += sum;
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

#define MOST_STATES (1u << 22)
static uint64_t *states; /* open addressing */
static size_t n_states, n_runs, n_ends;

static bool first_time(uint64_t state)
{
    for (size_t i = state % MOST_STATES;; i = (i + 1) % MOST_STATES) {
        if (states[i] == state)
            return false;
        if (!states[i]) {
            states[i] = state;
            assert_true(++n_states < MOST_STATES / 2);
            return true;
        }
    }
}

static uint64_t state_now(void)
{
    uint64_t h = dp_hash_bytes(owner, sizeof owner, (uint64_t)n_clock);
    h = dp_hash_bytes(thread, sizeof thread, h);
    h = dp_hash_mix(h ^ (uint64_t)blocked_ns);
    h = dp_hash_mix(h ^ (uint64_t)paid_ns);
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

static void reset(void)
{
    memset(thread, 0, sizeof thread);
    memset(owner, 0, sizeof owner);
    for (int i = 0; i < 2; i++) {
        unsigned set = DELTAPROF_LOCK_SET(lock_address[i]);
        memset(&slots[set * WAYS], 0, WAYS * sizeof *slots);
        memset(&open_ns[set * WAYS], 0, WAYS * sizeof *open_ns);
        deltaprof_lock_filter[set] = 0;
    }
    blocked_ns = paid_ns = 0;
    n_clock = 0;
    slept_ns = 0;
    for (volatile int t = 0; t < THREADS; t++) {
        if (_setjmp(scheduler))
            continue;
        ucontext_t start;
        getcontext(&start);
        start.uc_stack = (stack_t){.ss_sp = stacks[t], .ss_size = sizeof stacks[t]};
        makecontext(&start, (void (*)(void))body, 1, t);
        setcontext(&start);
    }
}

/* All have ended: paid and blocked differ by what still stands in the words, a debt (S < 0) or a credit, and by nothing
 * else. */
static bool balanced(void)
{
    int64_t open = 0;
    for (int i = 0; i < (lock_address[0] == lock_address[1] ? 1 : 2); i++) {
        unsigned set = DELTAPROF_LOCK_SET(lock_address[i]);
        unsigned busy = 0;
        if (i == 1 && set == DELTAPROF_LOCK_SET(lock_address[0]))
            break;
        for (int way = 0; way < WAYS; way++) {
            uint64_t word = atomic_load(&slots[set * WAYS + way].word);
            if (word & N_MASK)
                return false;
            open += owed_at(word, 0);
            busy += word != 0;
        }
        if (deltaprof_lock_filter[set] != busy)
            return false;
    }
    return paid_ns + open == blocked_ns;
}

static int64_t most_open, most_credit; /* what no event was left to pay; what was paid too much */

/* The first schedule that ends out of balance is a fault: true. */
static bool search(const struct scenario *which)
{
    static struct {
        unsigned left; /* choices not yet taken */
        int taken;
    } path[400];
    volatile int depth = 0;
    scenario = which;
    states = calloc(MOST_STATES, sizeof *states);
    assert_non_null(states);
    n_states = n_runs = n_ends = 0;
    most_open = most_credit = 0;
    volatile bool fault = false;
    do {
        n_runs++;
        reset();
        for (volatile int i = 0;; i++) {
            assert_true(i < 400);
            if (i == depth) {
                unsigned can = choices();
                if (!can) {
                    n_ends++;
                    fault = !balanced();
                    for (int t = 0; t < THREADS; t++)
                        assert_true(thread[t].ended || mutant);
                    if (blocked_ns - paid_ns > most_open)
                        most_open = blocked_ns - paid_ns;
                    if (paid_ns - blocked_ns > most_credit)
                        most_credit = paid_ns - blocked_ns;
                    break;
                }
                if (!first_time(state_now()))
                    break;
                path[depth].left = can;
                path[depth].taken = __builtin_ctz(can);
                path[depth].left &= can - 1;
                depth++;
            }
            int t = path[i].taken;
            if (t >= THREADS) {
                t -= THREADS;
                thread[t].gave_up = 1;
            }
            resume(t);
        }
        while (depth && !path[depth - 1].left)
            depth--;
        if (depth) {
            unsigned left = path[depth - 1].left;
            path[depth - 1].taken = __builtin_ctz(left);
            path[depth - 1].left &= left - 1;
        }
    } while (depth && !fault);
    free(states);
    print_message("%s: %zu states, %zu runs, %zu ends, %s\n", which->name, n_states, n_runs, n_ends,
                  fault ? "fault found" : "balanced");
    return fault;
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
static const struct scenario barging = {"a try that gets in between",
                                        {{TURN(LOCK, 0)}, {TURN(TRY, 0)}, {TURN(LOCK, 0)}}};

static const struct scenario months = {"a holder for months",
                                       {{{LOCK, 0}, {SLEEP, 0}, {UNLOCK, 0}}, {TURN(LOCK, 0)}, {TURN(LOCK, 0)}}};
static const struct scenario gave_up = {"a holder for months, and one that gives up",
                                        {{{LOCK, 0}, {SLEEP, 0}, {UNLOCK, 0}}, {TURN(TIMED, 0)}, {TURN(LOCK, 0)}}};

static const struct scenario *const all[] = {&one_lock, &twice,   &timed,  &mixed,  &taken,
                                             &nested,   &barging, &months, &gave_up};

static int two_locks_in_one_set(void **state)
{
    assert_int_equal(dp_contended_init(), 0);
    lock_address[0] = lock_memory;
    for (size_t i = 8; i < sizeof lock_memory; i += 8)
        if (DELTAPROF_LOCK_SET(lock_memory + i) == DELTAPROF_LOCK_SET(lock_memory)) {
            lock_address[1] = lock_memory + i;
            return 0;
        }
    lock_address[1] = lock_memory + 8;
    return 0;
}

static void every_interleaving_balances(void **state)
{
    mutant = NONE;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        sums_are_steps = all[i] == &months || all[i] == &twice;
        assert_false(search(all[i]));
        assert_true(n_ends > 0);
        /* Only a timeout after the last unlock leaves something to pay, and only a wait taken back was paid in vain. */
        assert_int_equal(most_open > 0, all[i] == &timed || all[i] == &mixed || all[i] == &gave_up);
        assert_int_equal(most_credit > 0, all[i] == &taken);
    }
}

static void the_search_finds_broken_steps(void **state)
{
    mutant = BLIND_CAS;
    assert_true(search(&one_lock));
    mutant = TORN_ADD;
    assert_true(search(&one_lock));
    mutant = FORGOTTEN_SUB;
    assert_true(search(&taken));
    mutant = LOST_PLACE;
    assert_true(search(&one_lock));
    mutant = LOST_SUM;
    assert_true(search(&months));
    mutant = NONE;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_interleaving_balances),
        cmocka_unit_test(the_search_finds_broken_steps),
    };
    return cmocka_run_group_tests(tests, two_locks_in_one_set, NULL);
}
