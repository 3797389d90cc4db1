/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/stats.h"
#include "host/api/recording.h"
#include "host/locks/last_unlock.h"
#include "host/table/record.h"
#include "host/locks/waiting.h"

#include <deltaprof/hooks.h>

static uint64_t locks[8]; /* only their addresses matter */
static dp_record_id record;

static int start(void **state)
{
    static const dp_frame_id frame = DP_FRAME_HAND_OVER;
    struct dp_stack stack = {.hash = dp_stack_hash(&frame, 1), .depth = 1, .frames = &frame};
    struct dp_config conf;
    dp_config_init(&conf);
    int err = dp_record_init(&conf);
    return err || !dp_record_intern(DP_KIND_BLOCK, 0, &stack, &record);
}

static struct dp_counts counted(void)
{
    struct dp_counts counts;
    dp_table_read(DP_KIND_BLOCK, record, &counts);
    return counts;
}

static dp_waiting_slot begin(const void *lock, int64_t begin_ns, uintptr_t frame)
{
    return dp_waiting_begin(lock, DELTAPROF_LOCK_MUTEX, begin_ns, record, frame);
}

/* How many waits the table shows; the last one found in *wait. */
static unsigned shown(struct dp_waiting *wait)
{
    unsigned n = 0;
    struct dp_waiting one;
    for (unsigned i = 0; i < dp_waiting_slots(); i++)
        if (dp_waiting_read(i, &one)) {
            *wait = one;
            n++;
        }
    return n;
}

TEST(a_wait_is_shown_while_it_goes_on)
{
    struct dp_waiting wait = {0};
    int64_t now = dp_clock_ns();
    dp_waiting_slot place = begin(&locks[0], now, 1000);
    assert_int_equal(shown(&wait), 1);
    assert_int_equal(wait.lock, (uintptr_t)&locks[0]);
    assert_int_equal(wait.begin_ns, now);
    assert_int_equal(wait.record, record);
    assert_int_equal(wait.tid, syscall(SYS_gettid));
    assert_int_equal(wait.kind, DELTAPROF_LOCK_MUTEX);
    assert_int_equal(dp_waiting_end(place, now), now);
    assert_int_equal(shown(&wait), 0);
}

TEST(what_a_report_counted_is_taken_off_the_end)
{
    struct dp_counts before = counted();
    int64_t begin_ns = dp_clock_ns();
    dp_waiting_slot place = begin(&locks[0], begin_ns, 1000);
    dp_waiting_count(0, 0);
    struct dp_counts once = counted();
    dp_waiting_count(0, 0);
    int64_t up_to = dp_waiting_end(place, begin_ns);
    assert_int_equal(once.n - before.n, 1);
    assert_int_equal(counted().n - before.n, 1); /* the contention once, its time twice */
    assert_int_equal(counted().v - before.v, up_to - begin_ns);
    assert_true(once.v > before.v && counted().v > once.v);
}

TEST(a_short_wait_is_left_to_its_end)
{
    struct dp_counts before = counted();
    int64_t begin_ns = dp_clock_ns();
    dp_waiting_slot place = begin(&locks[0], begin_ns, 1000);
    dp_waiting_count(INT64_C(3600000000000), 0);
    assert_int_equal(dp_waiting_end(place, begin_ns), begin_ns);
    assert_int_equal(counted().v, before.v);
}

TEST(a_wait_of_a_handler_leaves_the_one_below)
{
    struct dp_waiting wait = {0};
    int64_t now = dp_clock_ns();
    dp_waiting_slot outer = begin(&locks[0], now, 1000);
    assert_int_equal(begin(&locks[1], now + 1, 900), 0); /* deeper on the stack */
    assert_int_equal(shown(&wait), 1);
    assert_int_equal(wait.lock, (uintptr_t)&locks[0]);
    assert_int_equal(dp_waiting_end(outer, now), now);
}

TEST(an_abandoned_wait_gives_way_to_the_next)
{
    struct dp_waiting wait = {0};
    int64_t now = dp_clock_ns();
    begin(&locks[0], now, 1000);
    dp_waiting_slot next = begin(&locks[1], now + 1, 1000); /* a longjmp left the first */
    assert_int_equal(shown(&wait), 1);
    assert_int_equal(wait.lock, (uintptr_t)&locks[1]);
    assert_int_equal(dp_waiting_end(next, now), -1); /* the first one's end comes late: it ends nothing */
    assert_int_equal(shown(&wait), 1);
    assert_int_equal(dp_waiting_end(next, now + 1), now + 1);
}

static unsigned n_places;

static void *ends_without_notice(void *unused)
{
    dp_waiting_slot place = begin(&locks[2], dp_clock_ns(), 1000);
    n_places += place && place != DP_WAITING_UNLISTED;
    return unused; /* no dp_waiting_thread_ends */
}

static void *ends_in_order(void *unused)
{
    begin(&locks[2], dp_clock_ns(), 1000);
    dp_waiting_thread_ends();
    return unused;
}

static void run(void *(*body)(void *))
{
    pthread_t thread;
    pthread_create(&thread, NULL, body, NULL);
    pthread_join(thread, NULL);
}

TEST(threads_that_ended_do_not_wait)
{
    struct dp_waiting wait;
    struct dp_counts before = counted();
    run(ends_without_notice);
    run(ends_in_order);
    assert_int_equal(shown(&wait), 0);
    dp_waiting_count(0, 0);
    assert_int_equal(counted().v, before.v);
    n_places = 0;
    for (int i = 0; i < DP_WAITING_SLOTS + 100; i++) { /* their slots are used again */
        run(ends_without_notice);
        dp_waiting_count(0, 0);
    }
    assert_int_equal(n_places, DP_WAITING_SLOTS + 100);
}

enum { MANY = 1500 };
static pthread_barrier_t all_wait, all_counted;

static void *waits_with_many(void *unused)
{
    int64_t now = dp_clock_ns();
    dp_waiting_slot place = begin(&locks[5], now, 1000);
    pthread_barrier_wait(&all_wait);
    pthread_barrier_wait(&all_counted);
    dp_waiting_end(place, now);
    dp_waiting_thread_ends();
    return unused;
}

/* How many of so many threads are listed while all of them wait; the others are counted. */
static unsigned listed_of_many(void)
{
    static pthread_t threads[MANY];
    struct dp_waiting wait;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_barrier_init(&all_wait, NULL, MANY + 1);
    pthread_barrier_init(&all_counted, NULL, MANY + 1);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(pthread_create(&threads[i], &small, waits_with_many, NULL), 0);
    pthread_barrier_wait(&all_wait);
    unsigned n = shown(&wait);
    assert_int_equal(n + dp_waiting_unlisted(), MANY);
    pthread_barrier_wait(&all_counted);
    for (int i = 0; i < MANY; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(shown(&wait), 0);
    assert_int_equal(dp_waiting_unlisted(), 0);
    return n;
}

TEST(each_of_many_threads_is_counted)
{
    size_t cap = dp_mem_used() / 8 * 10; /* less than three tenths of it are free */
    uint64_t unlisted = dp_stats_read(DP_STAT_WAITS_UNLISTED);
    dp_mem_cap(cap);
    unsigned n = listed_of_many();
    assert_true(n > MANY / 2 && n < MANY);
    assert_int_equal(dp_stats_read(DP_STAT_WAITS_UNLISTED) - unlisted, MANY - n);
    dp_mem_cap(64 << 20);
    assert_int_equal(listed_of_many(), MANY);
}

TEST(a_forked_child_begins_with_an_empty_table)
{
    int64_t now = dp_clock_ns();
    dp_waiting_slot place = begin(&locks[0], now, 1000);
    pid_t child = fork();
    if (!child) {
        struct dp_waiting wait;
        dp_waiting_fork_child();
        bool empty = shown(&wait) == 0;
        place = begin(&locks[1], now, 1000);
        _exit(empty && place && shown(&wait) == 1 && wait.lock == (uintptr_t)&locks[1] ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    dp_waiting_end(place, now);
}

TEST(the_last_release_of_a_lock_is_known)
{
    assert_int_equal(dp_last_unlock_find((uintptr_t)&locks[3]), 0);
    dp_last_unlock_note((uintptr_t)&locks[3], 17);
    dp_last_unlock_note((uintptr_t)&locks[4], 18);
    dp_last_unlock_note((uintptr_t)&locks[3], 19);
    assert_int_equal(dp_last_unlock_find((uintptr_t)&locks[3]), 19);
    for (uintptr_t i = 0; i < 100000; i++) /* others take its row: then it is not known, never another lock's */
        dp_last_unlock_note(i * 64 + 1, (dp_record_id)i + 100);
    dp_record_id found = dp_last_unlock_find((uintptr_t)&locks[3]);
    assert_true(found == 0 || found == 19);
    for (uintptr_t i = 0; i < 100000; i++) {
        found = dp_last_unlock_find(i * 64 + 1);
        assert_true(found == 0 || found == i + 100);
    }
}

UNIT(start, NULL)
