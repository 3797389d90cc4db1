/* SPDX-License-Identifier: MIT */
/*
 * tests/support/schedules.h - runs code of several threads in every order, with up to a number of preemptions.
 *
 * Threads are coroutines. The code under test is included with its atomic operations as calls of schedules_step, where
 * another thread may continue. A schedule is a list of threads, one for each step, which says which thread continues.
 * Schedules are explored depth first, each from the start: a run repeats a schedule up to a step, chooses another
 * thread there, and then lets each thread run to its end. All interleavings in one total order are explored; weaker
 * memory orders are not.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

enum { SCHEDULES_THREADS = 4, SCHEDULES_STEPS = 512, SCHEDULES_PREEMPTIONS = 7 };

struct schedule {
    unsigned char choice[SCHEDULES_STEPS];  /* the thread that continues */
    unsigned char enabled[SCHEDULES_STEPS]; /* bit i: thread i could continue */
    unsigned n_steps;
};

static struct {
    struct {
        ucontext_t context;
        char stack[32 << 10];
        void (*script)(unsigned thread);
        bool done;
    } threads[SCHEDULES_THREADS];
    unsigned n_threads, current;
    ucontext_t scheduler;
    void (*begin)(void), (*end)(void); /* of each run; NULL: nothing */
    bool running;
    unsigned fixed; /* steps to repeat */
    struct schedule now, kept[SCHEDULES_PREEMPTIONS + 1];
    uint64_t n_runs, longest;
} schedules;

static unsigned schedules_choose(unsigned otherwise)
{
    struct schedule *s = &schedules.now;
    assert_true(s->n_steps < SCHEDULES_STEPS);
    unsigned next = s->n_steps < schedules.fixed ? s->choice[s->n_steps] : otherwise;
    s->enabled[s->n_steps] = 0;
    for (unsigned i = 0; i < schedules.n_threads; i++)
        s->enabled[s->n_steps] |= (unsigned char)(!schedules.threads[i].done << i);
    s->choice[s->n_steps++] = (unsigned char)next;
    return schedules.current = next;
}

/* Another thread may continue here. Does nothing outside of a run. */
static void schedules_step(void)
{
    if (!schedules.running)
        return;
    unsigned me = schedules.current, next = schedules_choose(me);
    if (next != me)
        swapcontext(&schedules.threads[me].context, &schedules.threads[next].context);
}

static void schedules_thread(unsigned i)
{
    schedules.threads[i].script(i);
    schedules.threads[i].done = true;
    for (unsigned next = 0; next < schedules.n_threads; next++)
        if (!schedules.threads[next].done)
            setcontext(&schedules.threads[schedules_choose(next)].context);
    setcontext(&schedules.scheduler);
}

static void schedules_run(void)
{
    if (schedules.begin)
        schedules.begin();
    for (unsigned i = 0; i < schedules.n_threads; i++) {
        ucontext_t *context = &schedules.threads[i].context;
        schedules.threads[i].done = false;
        getcontext(context);
        context->uc_stack.ss_sp = schedules.threads[i].stack;
        context->uc_stack.ss_size = sizeof schedules.threads[i].stack;
        context->uc_link = NULL;
        makecontext(context, (void (*)(void))schedules_thread, 1, i);
    }
    schedules.now.n_steps = 0;
    schedules.current = 0;
    schedules.running = true;
    swapcontext(&schedules.scheduler, &schedules.threads[0].context);
    schedules.running = false;
    schedules.n_runs++;
    if (schedules.now.n_steps > schedules.longest)
        schedules.longest = schedules.now.n_steps;
    if (schedules.end)
        schedules.end();
}

/* Runs all schedules that differ from the present one after `prefix` steps, with up to `preemptions` more. */
static void schedules_search(unsigned prefix, unsigned preemptions)
{
    schedules.fixed = prefix;
    schedules_run();
    if (!preemptions)
        return;
    struct schedule *kept = &schedules.kept[preemptions];
    *kept = schedules.now;
    for (unsigned i = prefix; i < kept->n_steps; i++)
        for (unsigned next = 0; next < schedules.n_threads; next++) {
            if (next == kept->choice[i] || !(kept->enabled[i] >> next & 1))
                continue;
            schedules.now = *kept;
            schedules.now.choice[i] = (unsigned char)next;
            schedules_search(i + 1, preemptions - 1);
        }
}

/* begin, end: around each run. Then n scripts, each of which gets the number of its thread. */
static void schedules_explore(void (*begin)(void), void (*end)(void), unsigned preemptions, unsigned n, va_list scripts)
{
    schedules.begin = begin;
    schedules.end = end;
    schedules.n_threads = n;
    schedules.n_runs = schedules.longest = 0;
    for (unsigned i = 0; i < n; i++)
        schedules.threads[i].script = va_arg(scripts, void (*)(unsigned));
    schedules_search(0, preemptions);
}
