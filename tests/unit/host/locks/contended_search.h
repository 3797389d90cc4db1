/* SPDX-License-Identifier: MIT */
/*
 * tests/unit/record/contended_search.h - runs every schedule of the threads of contended_steps.h, depth first, each
 * from the start, and leaves a run when it reaches a state that it has seen.
 *
 * A state is the shared memory with, for each thread, where it stands and all that it has read since it began its
 * present operation; its code being deterministic, that says what it will do. A model defines the functions below.
 */
#pragma once

#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

static void body(int me);        /* what a thread does */
static void clear(void);         /* puts the shared memory back to its start */
static unsigned choices(void);   /* bit t: thread t may go on; bit t + THREADS: it may give up its wait */
static uint64_t state_now(void); /* a hash of the shared memory and the threads; not 0 */
static bool balanced(void);      /* all have ended: do the books balance? */

static int64_t blocked_ns, paid_ns; /* block profile, mutex profile */

/* A new operation: of what was read, only what it keeps still matters. */
static void begin(int at)
{
    thread[running].at = at;
    thread[running].read = 0;
    thread[running].steps = 0;
}

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

static int64_t most_open, most_credit; /* what no event was left to pay; what was paid too much */

static void reset(void)
{
    memset(thread, 0, sizeof thread);
    clear();
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

/* The first schedule that ends out of balance is a fault: true. */
static bool explore(const char *name)
{
    static struct {
        unsigned left; /* choices not yet taken */
        int taken;
    } path[400];
    volatile int depth = 0;
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
    print_message("%s: %zu states, %zu runs, %zu ends, %s\n", name, n_states, n_runs, n_ends,
                  fault ? "fault found" : "balanced");
    return fault;
}
