/* SPDX-License-Identifier: MIT */
/*
 * Threads with and without trace contexts add events, some of them in a signal handler, while a reader empties the
 * ring: each event is read once and whole, with the trace of its thread, or counted as lost.
 */
#include "base/stats.h"
#include "host/table/event_ring.h"
#include "host/table/trace_context.h"
#include "host/thread/thread.h"
#include "stress.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define THREADS 7u
enum { FROM_HANDLER = 1 << 8, KINDS = 3, RING_BYTES = 1 << 20 };

static int64_t until_ms;
static atomic_bool stop;
static _Atomic uint64_t n_added, n_handled;
static uint64_t n_read, n_traced;

/* The trace context that a thread has at turn k; in every third turn it has none. */
static bool trace_of(unsigned thread, uint64_t k, uint64_t trace[3])
{
    for (unsigned i = 0; i < 3; i++)
        trace[i] = ((uint64_t)thread << 56 | k) * 0x9E3779B97F4A7C15u + i;
    return k % 3;
}

static __thread unsigned own;
static __thread atomic_uint_fast64_t turn;

/* The value tells the thread and the turn; the other fields follow from it. */
static void add(uint64_t flags)
{
    int64_t value = (int64_t)((own | flags) << 40 | atomic_load_explicit(&turn, memory_order_relaxed));
    atomic_fetch_add_explicit(&n_added, 1, memory_order_relaxed);
    dp_events_add(value % KINDS, (dp_record_id)(value % 1000), value + 1, value, value + 2, value + 3);
}

static void on_signal(int unused)
{
    add(FROM_HANDLER);
    atomic_fetch_add_explicit(&n_handled, 1, memory_order_relaxed);
}

static void write_on(unsigned thread)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    struct itimerspec every = {{0, 53000 + thread * 1000}, {0, 50000}};
    event._sigev_un._tid = gettid();
    own = thread;
    CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer));
    CHECK(!timer_settime(timer, 0, &every, NULL));
    for (uint64_t k = 1; stress_now_ms() < until_ms || atomic_load(&n_handled) < 100; k++) {
        uint64_t trace[3];
        bool traced = trace_of(thread, k, trace);
        dp_trace_context_set(NULL, NULL);
        atomic_store_explicit(&turn, k, memory_order_relaxed);
        if (traced)
            dp_trace_context_set(trace, trace + 2);
        add(0);
    }
    CHECK(!timer_delete(timer));
}

static void check(const struct dp_timed_event *e)
{
    static uint64_t last[THREADS];
    static int32_t tids[THREADS];
    uint64_t from = (uint64_t)e->value >> 40, k = (uint64_t)e->value & ((UINT64_C(1) << 40) - 1), trace[3];
    unsigned thread = from & (FROM_HANDLER - 1);
    CHECK(thread < THREADS);
    CHECK(e->n == e->value + 1 && e->time_ns == e->value + 2 && e->duration_ns == e->value + 3);
    CHECK(e->kind == e->value % KINDS && e->record == e->value % 1000);
    CHECK(k >= last[thread], "thread %u: turn %llu after %llu", thread, (unsigned long long)k,
          (unsigned long long)last[thread]);
    last[thread] = k;
    CHECK(!tids[thread] || tids[thread] == e->tid);
    tids[thread] = e->tid;
    bool traced = trace_of(thread, k, trace);
    if (from & FROM_HANDLER)
        CHECK(traced || !e->is_traced);
    else
        CHECK(traced == e->is_traced);
    CHECK(!e->is_traced || !memcmp(trace, e->trace, sizeof trace), "thread %u, turn %llu: another trace", thread,
          (unsigned long long)k);
    n_traced += e->is_traced;
    n_read++;
}

/* Returns false if an event is still being written. */
static bool read_all(void)
{
    uint64_t at, end;
    unsigned n = 1;
    struct dp_timed_event e;
    for (dp_events_range(&at, &end); at < end && (n = dp_events_read(at, &e)); at += n)
        check(&e);
    dp_events_drop(at);
    return n;
}

static void *read_on(void *unused)
{
    while (!atomic_load(&stop))
        read_all();
    return unused;
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    pthread_t reader;
    CHECK(!dp_events_tune(true, RING_BYTES));
    CHECK(!sigaction(SIGUSR1, &action, NULL));
    CHECK(!pthread_create(&reader, NULL, read_on, NULL));
    until_ms = stress_now_ms() + stress_length_ms();
    stress_threads(THREADS, write_on);
    atomic_store(&stop, true);
    CHECK(!pthread_join(reader, NULL));
    CHECK(read_all());
    uint64_t n_lost = dp_stats_read(DP_STAT_EVENTS_LOST);
    CHECK(n_added == n_read + n_lost, "%llu added, %llu read, %llu lost", (unsigned long long)n_added,
          (unsigned long long)n_read, (unsigned long long)n_lost);
    CHECK(n_traced && n_traced < n_read);
    printf("%llu events, %llu of them in handlers, %llu with a trace, %llu lost\n", (unsigned long long)n_added,
           (unsigned long long)n_handled, (unsigned long long)n_traced, (unsigned long long)n_lost);
    return 0;
}
