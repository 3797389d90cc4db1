/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stats.h"
#include "host/table/event_ring.h"
#include "host/table/trace_context.h"

enum { N = 1024, N_THREADS = 4, EACH = 40000 };

static uint64_t lost(void)
{
    return dp_stats_read(DP_STAT_EVENTS_LOST);
}

/* Reads and drops all; returns how many there were. */
static uint64_t take(struct dp_timed_event *last)
{
    uint64_t first, end, i, n_events = 0;
    dp_events_range(&first, &end);
    for (i = first; i < end; n_events++) {
        unsigned n = dp_events_read(i, last);
        if (!n)
            break;
        i += n;
    }
    dp_events_drop(i);
    return n_events;
}

TEST(off_nothing_is_kept)
{
    struct dp_timed_event event;
    assert_int_equal(dp_events_tune(false, 0), 0);
    dp_events_add(DP_KIND_HEAP, 1, 1, 1, 0, 0);
    assert_int_equal(take(&event), 0);
    assert_int_equal(dp_events_tune(true, N * 48), 0);
    dp_events_add(DP_KIND_HEAP, 1, 1, 1, 0, 0);
    assert_int_equal(dp_events_tune(false, 0), 0);
    dp_events_add(DP_KIND_HEAP, 1, 1, 1, 0, 0);
    assert_int_equal(take(&event), 1); /* what there was stays */
    assert_int_equal(dp_events_tune(true, 0), 0);
}

TEST(an_event_comes_out_as_it_went_in)
{
    struct dp_timed_event event;
    int64_t before = dp_clock_ns();
    dp_events_add(DP_KIND_BLOCK, 7, 3, 400, 12345, 50);
    assert_int_equal(take(&event), 1);
    assert_int_equal(event.kind, DP_KIND_BLOCK);
    assert_int_equal(event.record, 7);
    assert_int_equal(event.n, 3);
    assert_int_equal(event.value, 400);
    assert_int_equal(event.time_ns, 12345);
    assert_int_equal(event.duration_ns, 50);
    assert_int_equal(event.tid, gettid());
    dp_events_add(DP_KIND_HEAP, 1, 1, 8, 0, 0);
    assert_int_equal(take(&event), 1);
    assert_in_range(event.time_ns, before, dp_clock_ns());
}

TEST(a_trace_is_that_of_the_thread_and_takes_a_second_place)
{
    struct dp_timed_event event;
    uint64_t before = lost();
    dp_trace_context_set("0123456789abcdef", "ABCDEFGH");
    dp_events_add(DP_KIND_BLOCK, 7, 3, 400, 12345, 50);
    assert_int_equal(take(&event), 1);
    assert_true(event.is_traced && !memcmp(event.trace, "0123456789abcdefABCDEFGH", 24));
    assert_true(event.kind == DP_KIND_BLOCK && event.value == 400 && event.time_ns == 12345 && event.n == 3);
    for (int64_t i = 0; i < N; i++)
        dp_events_add(DP_KIND_HEAP, 1, 1, i, 0, 0);
    assert_int_equal(lost() - before, N / 2);
    assert_int_equal(take(&event), N / 2);
    dp_trace_context_set(NULL, NULL);
    dp_events_add(DP_KIND_HEAP, 1, 1, 5, 0, 0);
    assert_int_equal(take(&event), 1);
    assert_false(event.is_traced);
}

TEST(a_full_ring_keeps_the_first_and_counts_the_rest)
{
    struct dp_timed_event event;
    uint64_t before = lost(), first, end;
    for (int64_t i = 0; i < 3 * N; i++)
        dp_events_add(DP_KIND_HEAP, 1, 1, i, 0, 0);
    assert_int_equal(lost() - before, 2 * N);
    dp_events_range(&first, &end);
    assert_true(dp_events_read(first, &event));
    assert_int_equal(event.value, 0);
    dp_events_range(&first, &end); /* a failed write: they are still there */
    assert_int_equal(end - first, N);
    assert_int_equal(take(&event), N);
    assert_int_equal(event.value, N - 1);
    dp_events_add(DP_KIND_HEAP, 1, 1, 77, 0, 0);
    assert_int_equal(take(&event), 1);
    assert_int_equal(event.value, 77);
}

static void *add_many(void *unused)
{
    for (int64_t i = 1; i <= EACH; i++) {
        if (i % 3 == 0)
            dp_trace_context_set(&(int64_t[2]){i, i}, &i);
        else
            dp_trace_context_set(NULL, NULL);
        dp_events_add(DP_KIND_HEAP, 1, 1, i, i, 0);
    }
    return unused;
}

static _Atomic bool over;

/* Each thread's events come in its own order, whole, and none twice. */
static void *take_many(void *sum)
{
    int64_t last[4] = {0};
    int32_t tids[4] = {0};
    for (bool again = true; again;) {
        uint64_t first, end, i;
        again = !dp_load_acquire(&over);
        dp_events_range(&first, &end);
        for (i = first; i < end;) {
            struct dp_timed_event event;
            unsigned t = 0, n = dp_events_read(i, &event);
            if (!n)
                break;
            i += n;
            assert_int_equal(event.is_traced, event.value % 3 == 0);
            for (int k = 0; k < 3 && event.is_traced; k++)
                assert_int_equal(event.trace[k], event.value);
            while (t < N_THREADS - 1 && tids[t] && tids[t] != event.tid)
                t++;
            tids[t] = event.tid;
            assert_int_equal(event.time_ns, event.value);
            assert_true(event.value > last[t]);
            last[t] = event.value;
            ++*(int64_t *)sum;
        }
        dp_events_drop(i);
    }
    return NULL;
}

TEST(many_threads_lose_nothing_but_what_is_counted)
{
    pthread_t threads[N_THREADS], reader;
    int64_t sum = 0;
    uint64_t before = lost();
    pthread_create(&reader, NULL, take_many, &sum);
    for (int i = 0; i < N_THREADS; i++)
        pthread_create(&threads[i], NULL, add_many, NULL);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    dp_store_release(&over, true);
    pthread_join(reader, NULL);
    assert_int_equal(sum + (int64_t)(lost() - before), N_THREADS * EACH);
}

TEST(a_child_begins_with_an_empty_ring)
{
    struct dp_timed_event event;
    dp_events_add(DP_KIND_HEAP, 1, 1, 5, 0, 0);
    pid_t pid = fork();
    if (!pid) {
        dp_events_fork_child();
        uint64_t n = take(&event);
        dp_events_add(DP_KIND_HEAP, 1, 1, 6, 0, 0);
        _exit(n || take(&event) != 1 || event.value != 6 || event.tid != getpid());
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(take(&event), 1);
}

UNIT(NULL, NULL)
