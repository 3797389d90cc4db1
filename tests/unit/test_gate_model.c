/* SPDX-License-Identifier: MIT */
/*
 * test_gate_model.c - interleavings of threads through gate.c itself.
 *
 * gate.c is compiled in with each atomic operation as a point where another thread may go on. Threads are coroutines;
 * every schedule with up to a number of preemptions is run, each from the start. What must hold at every step: while a
 * block that is not at a page boundary is live, no free passes by; and in the end the gate is open again, unless a rate
 * came that gives no pages. The same search must find fault with a gate whose compare-and-swap is torn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <string.h>
#include <ucontext.h>

#include "base/atomic.h"

static void step(void);
static bool torn;
static bool swapped(_Atomic uint64_t *word, uint64_t *expected, uint64_t value);

#undef dp_load_relaxed
#undef dp_store_relaxed
#undef dp_cas_relaxed
#define dp_load_relaxed(p)             (step(), atomic_load(p))
#define dp_store_relaxed(p, v)         (step(), atomic_store(p, v))
#define dp_cas_relaxed(p, expected, v) swapped(p, expected, v)
#include "record/gate.c"

struct dp_record_state dp_record_state;
__thread struct deltaprof_thread deltaprof_thread __attribute__((tls_model("initial-exec")));

static bool swapped(_Atomic uint64_t *word, uint64_t *expected, uint64_t value)
{
    step();
    if (!torn)
        return atomic_compare_exchange_strong(word, expected, value);
    uint64_t seen = atomic_load(word);
    if (seen != *expected) {
        *expected = seen;
        return false;
    }
    step();
    atomic_store(word, value);
    return true;
}

#define THREADS_MAX 3
#define STEPS_MAX   256
#define BLOCK(i)    ((void *)(uintptr_t)(0x7f0000001230 + 64 * (i)))

static struct thread {
    ucontext_t context;
    char stack[32 << 10];
    void (*script)(unsigned);
    bool done;
} threads[THREADS_MAX];
static unsigned n_threads, current, n_steps, fixed;
static unsigned char choice[STEPS_MAX], enabled[STEPS_MAX];
static ucontext_t scheduler;
static bool exploring, is_live[THREADS_MAX];
static struct deltaprof_gate the_gate;
static uint64_t runs, passed_by;

static unsigned choose(unsigned otherwise)
{
    assert_true(n_steps < STEPS_MAX);
    unsigned next = n_steps < fixed ? choice[n_steps] : otherwise;
    enabled[n_steps] = 0;
    for (unsigned i = 0; i < n_threads; i++)
        enabled[n_steps] |= (unsigned char)(!threads[i].done << i);
    choice[n_steps++] = (unsigned char)next;
    return current = next;
}

static void step(void)
{
    if (!exploring)
        return;
    for (unsigned i = 0; i < n_threads; i++)
        passed_by += is_live[i] && deltaprof_gate_passes(&the_gate, BLOCK(i));
    unsigned me = current, next = choose(me);
    if (next != me)
        swapcontext(&threads[me].context, &threads[next].context);
}

static void run_script(unsigned i)
{
    threads[i].script(i);
    threads[i].done = true;
    for (unsigned next = 0; next < n_threads; next++)
        if (!threads[next].done)
            setcontext(&threads[choose(next)].context);
    setcontext(&scheduler);
}

static void run_once(void)
{
    the_gate.frees = OPEN;
    memset(is_live, 0, sizeof is_live);
    for (unsigned i = 0; i < n_threads; i++) {
        threads[i].done = false;
        getcontext(&threads[i].context);
        threads[i].context.uc_stack.ss_sp = threads[i].stack;
        threads[i].context.uc_stack.ss_size = sizeof threads[i].stack;
        threads[i].context.uc_link = NULL;
        makecontext(&threads[i].context, (void (*)(void))run_script, 1, i);
    }
    n_steps = 0;
    current = 0;
    exploring = true;
    swapcontext(&scheduler, &threads[0].context);
    exploring = false;
    runs++;
}

static void (*at_end)(void);

/* All schedules that differ from `prefix` steps on, with up to `preemptions` more. Depth first, by replay. */
static void explore(unsigned prefix, unsigned preemptions)
{
    fixed = prefix;
    run_once();
    at_end();
    if (!preemptions)
        return;
    static unsigned char saved_choice[8][STEPS_MAX], saved_enabled[8][STEPS_MAX];
    unsigned char *kept = saved_choice[preemptions], *able = saved_enabled[preemptions];
    unsigned n = n_steps;
    memcpy(kept, choice, n);
    memcpy(able, enabled, n);
    for (unsigned i = prefix; i < n; i++)
        for (unsigned next = 0; next < n_threads; next++) {
            if (next == kept[i] || !(able[i] >> next & 1))
                continue;
            memcpy(choice, kept, n);
            choice[i] = (unsigned char)next;
            explore(i + 1, preemptions - 1);
        }
}

/* ---- what threads do ---- */

/* A sample that could not be had at a page boundary is inserted, lives for a while, and is freed; twice. */
static void keeps_a_block(unsigned i)
{
    for (int turn = 0; turn < 2; turn++) {
        dp_gate_add((uintptr_t)BLOCK(i));
        is_live[i] = true;
        step();
        is_live[i] = false;
        dp_gate_remove((uintptr_t)BLOCK(i));
    }
}

static void samples_more_often(unsigned i)
{
    dp_gate_tune_heap(1);
    is_live[i] = true; /* nothing counts it from now on */
    step();
}

static void the_gate_is_open(void)
{
    assert_int_equal(the_gate.frees, OPEN);
}

static void the_gate_is_shut(void)
{
    assert_int_equal(the_gate.frees, SHUT);
}

static void nothing_to_say(void) {}

static void explore_scripts(unsigned n, void (*const scripts[])(unsigned), unsigned preemptions, void (*check)(void))
{
    n_threads = n;
    for (unsigned i = 0; i < n; i++)
        threads[i].script = scripts[i];
    at_end = check;
    runs = passed_by = 0;
    explore(0, preemptions);
}

static void no_free_passes_by_while_a_block_lies_elsewhere(void **state)
{
    explore_scripts(2, (void (*const[])(unsigned)){keeps_a_block, keeps_a_block}, 5, the_gate_is_open);
    assert_int_equal(passed_by, 0);
    explore_scripts(3, (void (*const[])(unsigned)){keeps_a_block, keeps_a_block, keeps_a_block}, 3, the_gate_is_open);
    assert_int_equal(passed_by, 0);
    assert_true(runs > 10000);
}

static void a_rate_without_pages_shuts_it_for_good(void **state)
{
    explore_scripts(3, (void (*const[])(unsigned)){keeps_a_block, samples_more_often, keeps_a_block}, 3,
                    the_gate_is_shut);
    assert_int_equal(passed_by, 0);
}

static void a_torn_gate_is_found(void **state)
{
    torn = true;
    explore_scripts(2, (void (*const[])(unsigned)){keeps_a_block, keeps_a_block}, 3, nothing_to_say);
    assert_true(passed_by > 0);
    torn = false;
}

static int open_gate(void **state)
{
    deltaprof_gate_open(&the_gate, true);
    return the_gate.frees == OPEN ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_free_passes_by_while_a_block_lies_elsewhere),
        cmocka_unit_test(a_rate_without_pages_shuts_it_for_good),
        cmocka_unit_test(a_torn_gate_is_found),
    };
    return cmocka_run_group_tests(tests, open_gate, NULL);
}
