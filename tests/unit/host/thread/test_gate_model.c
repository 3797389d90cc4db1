/* SPDX-License-Identifier: MIT */
/*
 * test_gate_model.c - interleavings of threads through gate.c itself.
 *
 * gate.c is compiled in with each atomic operation as a point where another thread may go on (schedules.h). What must
 * hold at every step: while a block that is not at a page boundary is live, its free passes by neither on its address
 * nor on its page; and in the end the gate is open again, unless a rate came that gives no pages. The same search must
 * find fault with a gate whose compare-and-swap is torn.
 */
#include "support/unit.h"
#include <stdbool.h>
#include <string.h>

#include "base/atomic.h"
#include "support/schedules.h"

static void step(void);
static bool torn;

#undef dp_load_relaxed
#undef dp_store_relaxed
#undef dp_load_acquire
#undef dp_store_release
#undef dp_cas_relaxed
#define dp_load_relaxed(p)     (step(), atomic_load(p))
#define dp_load_acquire(p)     (step(), atomic_load(p))
#define dp_store_relaxed(p, v) (step(), atomic_store(p, v))
#define dp_store_release(p, v) (step(), atomic_store(p, v))
#define dp_cas_relaxed(p, expected, v)                                                                      \
    __extension__({                                                                                         \
        step();                                                                                             \
        bool done_ = torn ? atomic_load(p) == *(expected) : atomic_compare_exchange_strong(p, expected, v); \
        if (torn && done_) {                                                                                \
            step();                                                                                         \
            atomic_store(p, v);                                                                             \
        } else if (torn) {                                                                                  \
            *(expected) = atomic_load(p);                                                                   \
        }                                                                                                   \
        done_;                                                                                              \
    })
#include "host/thread/gate.c"

__thread struct deltaprof_thread deltaprof_thread __attribute__((tls_model("initial-exec")));

enum { THREADS_MAX = 3 };
#define BLOCK(i) ((void *)(uintptr_t)(0x7f0000001230 + 64 * (i)))
#define PAGE     1 /* the byte of their page */

static bool is_live[THREADS_MAX];
static struct deltaprof_gate the_gate;
static uint64_t passed_by;

static void step(void)
{
    for (unsigned i = 0; schedules.running && i < schedules.n_threads; i++)
        passed_by += is_live[i] &&
                     (deltaprof_gate_passes(&the_gate, BLOCK(i)) || deltaprof_gate_page_passes(&the_gate, BLOCK(i)));
    schedules_step();
}

static void reset(void)
{
    the_gate.frees = OPEN;
    the_gate.pages = (const uint8_t *)pages;
    pages[PAGE] = 0;
    memset(is_live, 0, sizeof is_live);
}

/* ---- what threads do ---- */

/* A sample that could not be had at a page boundary is inserted, lives for a while, and is freed; twice. */
static void keeps_a_block(unsigned i)
{
    for (int turn = 0; turn < 2; turn++) {
        dp_thread_gate_add((uintptr_t)BLOCK(i));
        is_live[i] = true;
        step();
        is_live[i] = false;
        dp_thread_gate_remove((uintptr_t)BLOCK(i));
    }
}

static void samples_more_often(unsigned i)
{
    dp_thread_gate_tune_heap(1);
    is_live[i] = true; /* nothing counts it from now on */
    step();
}

static void the_gate_is_open(void)
{
    assert_int_equal(the_gate.frees, OPEN);
    assert_int_equal(pages[PAGE], 0);
}

static void the_gate_is_shut(void)
{
    assert_int_equal(the_gate.frees, SHUT);
    assert_null(the_gate.pages);
}

static void explore(void (*check)(void), unsigned preemptions, unsigned n, ...)
{
    va_list scripts;
    va_start(scripts, n);
    passed_by = 0;
    schedules_explore(reset, check, preemptions, n, scripts);
    va_end(scripts);
}

TEST(no_free_passes_by_while_a_block_lies_elsewhere)
{
    explore(the_gate_is_open, 4, 2, keeps_a_block, keeps_a_block);
    assert_int_equal(passed_by, 0);
    explore(the_gate_is_open, 3, 3, keeps_a_block, keeps_a_block, keeps_a_block);
    assert_int_equal(passed_by, 0);
    assert_true(schedules.n_runs > 10000);
}

TEST(a_rate_without_pages_shuts_it_for_good)
{
    explore(the_gate_is_shut, 3, 3, keeps_a_block, samples_more_often, keeps_a_block);
    assert_int_equal(passed_by, 0);
}

TEST(a_torn_gate_is_found)
{
    torn = true;
    explore(NULL, 3, 2, keeps_a_block, keeps_a_block);
    assert_true(passed_by > 0);
    torn = false;
}

static int open_gate(void **state)
{
    deltaprof_gate_open(&the_gate, DELTAPROF_GIVES_PAGES);
    return the_gate.frees == OPEN ? 0 : -1;
}

UNIT(open_gate, NULL)
