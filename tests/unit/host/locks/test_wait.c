/* SPDX-License-Identifier: MIT */
/* Waits and their ends: which thread each wait counts for, and in which profile, with every wait recorded. */
#include "lock_sums.h"

#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "host/table/event_ring.h"
#include "host/locks/waiting.h"

static void pass_ms(long ms)
{
    nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

TEST(a_wait_counts_for_the_thread_that_unlocks)
{
    struct deltaprof_wait wait;
    mark();
    assert_false(deltaprof_lock_may_have_waiters(&locks[0]));
    deltaprof_lock_wait_begin(&wait, &locks[0], DELTAPROF_LOCK_MUTEX, NULL);
    assert_true(deltaprof_lock_may_have_waiters(&locks[0]));
    pass_ms(5);
    assert_true(release(&locks[0]));
    int64_t before_hand_over = mutex_ns(DELTAPROF_LOCK_MUTEX);
    assert_true(before_hand_over >= 5000000);
    pass_ms(1);
    deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
    assert_false(deltaprof_lock_may_have_waiters(&locks[0]));
    assert_true(mutex_ns(DELTAPROF_LOCK_MUTEX) - before_hand_over >= 1000000);
    assert_true(sum(DP_KIND_MUTEX, DELTAPROF_LOCK_MUTEX, DP_FRAME_HAND_OVER).v >= 1000000);
    assert_int_equal(mutex_ns(0), block_ns(0));
    assert_int_equal(contentions(DELTAPROF_LOCK_MUTEX), 2); /* a holder's, and nobody's */
}

TEST(a_timeout_is_a_debt_of_the_next_release)
{
    struct deltaprof_wait wait;
    mark();
    deltaprof_lock_wait_begin(&wait, &locks[1], DELTAPROF_LOCK_MUTEX, NULL);
    pass_ms(2);
    deltaprof_lock_wait_end(&wait, DELTAPROF_TIMED_OUT, NULL);
    assert_int_equal(mutex_ns(0), 0);
    assert_true(block_ns(0) >= 2000000);
    assert_true(release(&locks[1]));
    assert_int_equal(mutex_ns(0), block_ns(0));
    assert_false(release(&locks[1]));
}

TEST(a_call_that_did_not_wait_counts_nowhere)
{
    struct deltaprof_wait wait, paid;
    mark();
    deltaprof_lock_wait_begin(&wait, &locks[2], DELTAPROF_LOCK_MUTEX, NULL);
    pass_ms(1);
    deltaprof_lock_wait_end(&wait, DELTAPROF_NOT_WAITED, NULL);
    assert_false(release(&locks[2]));
    assert_int_equal(mutex_ns(0), 0);
    assert_int_equal(block_ns(0), 0);
    /* If it was paid for already, that was waiting time: without a contention. */
    deltaprof_lock_wait_begin(&paid, &locks[2], DELTAPROF_LOCK_MUTEX, NULL);
    pass_ms(1);
    assert_true(release(&locks[2]));
    deltaprof_lock_wait_end(&paid, DELTAPROF_NOT_WAITED, NULL);
    assert_true(mutex_ns(0) > 0);
    assert_int_equal(mutex_ns(0), block_ns(0));
    deltaprof_lock_wait_begin(&wait, &locks[2], DELTAPROF_LOCK_MUTEX, NULL);
    pass_ms(3);
    deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
    assert_int_equal(mutex_ns(0), block_ns(0));
}

TEST(an_uncontended_wait_that_a_report_has_counted_is_an_event)
{
    struct deltaprof_wait wait;
    struct dp_timed_event event;
    uint64_t first, end;
    mark();
    assert_int_equal(dp_events_tune(true, 1 << 16), 0);
    deltaprof_lock_wait_begin(&wait, &locks[3], DELTAPROF_LOCK_BARRIER, NULL);
    pass_ms(1);
    dp_waiting_count(0, 0);
    pass_ms(1);
    deltaprof_lock_wait_end(&wait, DELTAPROF_NOT_WAITED, NULL);
    assert_int_equal(dp_events_tune(false, 0), 0);
    dp_events_range(&first, &end);
    assert_int_equal(end - first, 1);
    assert_true(dp_events_read(first, &event));
    assert_true(event.value > 0);
    assert_int_equal(event.value, block_ns(0));
    dp_events_drop(end);
}

TEST(readers_and_writers_have_different_labels)
{
    struct deltaprof_wait reader, writer;
    mark();
    deltaprof_lock_wait_begin(&writer, &locks[3], DELTAPROF_LOCK_WRITE,
                              NULL); /* begins before the other, and ends after it */
    deltaprof_lock_wait_begin(&reader, &locks[3], DELTAPROF_LOCK_READ, NULL);
    pass_ms(1);
    assert_true(release(&locks[3]));
    deltaprof_lock_wait_end(&reader, DELTAPROF_ACQUIRED, NULL);
    pass_ms(1);
    assert_true(release(&locks[3]));
    deltaprof_lock_wait_end(&writer, DELTAPROF_ACQUIRED, NULL);
    assert_int_equal(mutex_ns(DELTAPROF_LOCK_READ), block_ns(DELTAPROF_LOCK_READ));
    assert_int_equal(mutex_ns(DELTAPROF_LOCK_WRITE), block_ns(DELTAPROF_LOCK_WRITE));
    assert_true(block_ns(DELTAPROF_LOCK_WRITE) > block_ns(DELTAPROF_LOCK_READ));
    assert_int_equal(mutex_ns(DELTAPROF_LOCK_MUTEX), 0);
}

TEST(an_interpreter_s_lock_has_a_holder)
{
    struct deltaprof_wait wait;
    mark();
    deltaprof_lock_wait_begin(&wait, &locks[5], DELTAPROF_LOCK_GIL, NULL);
    assert_true(release(&locks[5]));
    deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
    assert_true(block_ns(DELTAPROF_LOCK_GIL) > 0);
    assert_int_equal(mutex_ns(DELTAPROF_LOCK_GIL), block_ns(DELTAPROF_LOCK_GIL));
}

TEST(waits_without_a_holder_are_in_the_block_profile_only)
{
    mark();
    for (unsigned kind = DELTAPROF_LOCK_COND; kind <= DELTAPROF_LOCK_JOIN; kind++) {
        struct deltaprof_wait wait;
        deltaprof_lock_wait_begin(&wait, &locks[4], kind, NULL);
        assert_false(deltaprof_lock_may_have_waiters(&locks[4]));
        deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
        assert_true(block_ns(kind) > 0);
    }
    assert_int_equal(mutex_ns(0), 0);
}

TEST(an_unknown_holder_has_its_own_frame)
{
    struct deltaprof_wait wait;
    struct dp_counts before = sum(DP_KIND_MUTEX, 0, DP_FRAME_UNKNOWN_HOLDER);
    mark();
    deltaprof_lock_wait_begin(&wait, NULL, DELTAPROF_LOCK_MUTEX, NULL);
    deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
    assert_int_equal(sum(DP_KIND_MUTEX, 0, DP_FRAME_UNKNOWN_HOLDER).n - before.n, 1);
    assert_int_equal(mutex_ns(0), block_ns(0));
}

TEST(a_destroyed_lock_loses_its_debt)
{
    struct deltaprof_wait wait;
    struct dp_counts before = sum(DP_KIND_MUTEX, 0, DP_FRAME_UNKNOWN_HOLDER);
    mark();
    deltaprof_lock_wait_begin(&wait, &locks[5], DELTAPROF_LOCK_MUTEX, NULL);
    deltaprof_lock_wait_end(&wait, DELTAPROF_TIMED_OUT, NULL);
    assert_true(deltaprof_lock_may_have_waiters(&locks[5]));
    deltaprof_lock_destroyed(&locks[5]);
    assert_false(deltaprof_lock_may_have_waiters(&locks[5]));
    assert_int_equal(sum(DP_KIND_MUTEX, 0, DP_FRAME_UNKNOWN_HOLDER).v - before.v, block_ns(0));
}

/* Many more locks than a set has room for, all waited for at once: losses are counted and the totals stay equal. */
TEST(a_full_table_keeps_totals)
{
    enum { N = 30000 };
    static struct deltaprof_wait waits[N];
    static char addresses[N];
    uint64_t full = dp_stats_read(DP_STAT_LOCKS_FULL);
    mark();
    for (int i = 0; i < N; i++)
        deltaprof_lock_wait_begin(&waits[i], &addresses[i], DELTAPROF_LOCK_MUTEX, NULL);
    assert_true(dp_stats_read(DP_STAT_LOCKS_FULL) > full);
    for (int i = 0; i < N; i += 2)
        release(&addresses[i]);
    for (int i = 0; i < N; i++)
        deltaprof_lock_wait_end(&waits[i], DELTAPROF_ACQUIRED, NULL);
    assert_int_equal(mutex_ns(0), block_ns(0));
    for (unsigned set = 0; set < DELTAPROF_LOCK_SETS; set++)
        assert_int_equal(deltaprof_lock_filter[set], 0);
}

TEST(more_waiters_than_a_word_can_count_keep_totals)
{
    enum { N = 5000 };
    static struct deltaprof_wait waits[N];
    mark();
    for (int i = 0; i < N; i++)
        deltaprof_lock_wait_begin(&waits[i], &locks[6], DELTAPROF_LOCK_MUTEX, NULL);
    assert_true(release(&locks[6]));
    for (int i = 0; i < N; i++)
        deltaprof_lock_wait_end(&waits[i], i % 3 ? DELTAPROF_ACQUIRED : DELTAPROF_TIMED_OUT, NULL);
    release(&locks[6]);
    assert_int_equal(mutex_ns(0), block_ns(0));
    assert_false(deltaprof_lock_may_have_waiters(&locks[6]));
}

TEST(a_guarded_thread_records_nothing)
{
    struct deltaprof_wait wait;
    mark();
    int64_t kept = deltaprof_guard_enter();
    deltaprof_lock_wait_begin(&wait, &locks[7], DELTAPROF_LOCK_MUTEX, NULL);
    deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
    deltaprof_guard_exit(kept);
    assert_int_equal(block_ns(0), 0);
    assert_false(deltaprof_lock_may_have_waiters(&locks[7]));
}

TEST(a_wake_of_two_classes_is_one_release)
{
    struct dp_contended_debt taken;
    struct deltaprof_futex_wake wake;
    int64_t now_ns = dp_clock_ns();
    struct dp_counts before = sum(DP_KIND_MUTEX, 0, 0);
    assert_true(dp_contended_enter_futex(&locks[30], 1, now_ns - 5000, &taken));
    assert_true(dp_contended_enter_futex(&locks[30], 2, now_ns - 7000, &taken));
    assert_true(deltaprof_futex_wake_begin(&wake, &locks[30]));
    deltaprof_futex_wake_end(&wake, NULL);
    struct dp_counts after = sum(DP_KIND_MUTEX, 0, 0);
    assert_int_equal(after.n - before.n, 1);
    assert_true(after.v - before.v >= 12000);
}

TEST(a_wait_for_several_words_has_an_unknown_holder)
{
    static const enum deltaprof_lock_end ends[] = {DELTAPROF_ACQUIRED, DELTAPROF_TIMED_OUT, DELTAPROF_NOT_WAITED};
    struct dp_counts before = sum(DP_KIND_MUTEX, 0, DP_FRAME_UNKNOWN_HOLDER);
    struct deltaprof_wait wait;
    mark();
    for (int i = 0; i < 3; i++) {
        deltaprof_futex_wait_begin(&wait, NULL, NULL);
        deltaprof_futex_wait_end(&wait, NULL, ends[i]);
    }
    assert_true(block_ns(0) > 0);
    assert_int_equal(mutex_ns(0), block_ns(0));
    assert_int_equal(sum(DP_KIND_MUTEX, 0, DP_FRAME_UNKNOWN_HOLDER).v - before.v, block_ns(0));
}

static void end_futex(struct deltaprof_wait *wait, enum deltaprof_lock_end end)
{
    deltaprof_futex_wait_end(wait, NULL, end);
}

static void end_lock(struct deltaprof_wait *wait, enum deltaprof_lock_end end)
{
    deltaprof_lock_wait_end(wait, end, NULL);
}

/*
 * The thread has begun another wait in the same place. The first one of a lock is another coroutine's, and counts; one
 * of a futex was left by longjmp.
 */
TEST(the_end_of_a_wait_whose_place_was_taken_counts_for_locks)
{
    for (int is_futex = 0; is_futex < 2; is_futex++) {
        struct deltaprof_wait wait = {0}, first;
        for (int i = 0; i < 2; i++) {
            first = wait;
            if (is_futex)
                deltaprof_futex_wait_begin(&wait, &locks[32], NULL);
            else
                deltaprof_lock_wait_begin(&wait, &locks[33], DELTAPROF_LOCK_MUTEX, NULL);
            pass_ms(1);
        }
        struct dp_counts before = sum(DP_KIND_BLOCK, 0, 0);
        void (*end)(struct deltaprof_wait *, enum deltaprof_lock_end) = is_futex ? end_futex : end_lock;
        end(&first, DELTAPROF_ACQUIRED);
        struct dp_counts between = sum(DP_KIND_BLOCK, 0, 0);
        assert_int_equal(between.n - before.n, !is_futex);
        assert_int_equal(between.v > before.v, !is_futex);
        end(&wait, DELTAPROF_ACQUIRED);
        assert_int_equal(sum(DP_KIND_BLOCK, 0, 0).n, between.n + 1);
    }
    release(&locks[33]);
}

static void wait_at_the_end_of(unsigned path);
#define KEEPS_ITS_FRAME __asm__ volatile("" ::: "memory")
__attribute__((noinline)) static void turns_left(unsigned path)
{
    wait_at_the_end_of(path);
    KEEPS_ITS_FRAME;
}
__attribute__((noinline)) static void turns_right(unsigned path)
{
    wait_at_the_end_of(path);
    KEEPS_ITS_FRAME;
}
static void wait_at_the_end_of(unsigned path)
{
    struct deltaprof_wait wait;
    if (path > 1) {
        (path & 1 ? turns_right : turns_left)(path >> 1);
    } else {
        deltaprof_futex_wait_begin(&wait, &locks[31], NULL);
        deltaprof_futex_wait_end(&wait, &locks[31], DELTAPROF_ACQUIRED);
    }
    KEEPS_ITS_FRAME;
}

/* More stacks than there are classes, none with a verdict. */
TEST(waits_in_many_stacks_keep_totals)
{
    mark();
    uint32_t n_before = dp_table_count(DP_KIND_BLOCK);
    for (unsigned path = 4096; path < 2 * 4096 + 2048; path++)
        wait_at_the_end_of(path);
    assert_true(dp_table_count(DP_KIND_BLOCK) - n_before > DP_FUTEX_CLASS_MASK);
    assert_true(block_ns(0) > 0);
    assert_int_equal(mutex_ns(0), block_ns(0));
}

TEST(no_thread_waits_in_a_forked_child)
{
    struct deltaprof_wait wait;
    deltaprof_lock_wait_begin(&wait, &locks[10], DELTAPROF_LOCK_MUTEX, NULL);
    pid_t child = fork();
    if (child == 0) {
        dp_record_fork_child();
        struct dp_counts before = sum(DP_KIND_MUTEX, 0, 0), waited = sum(DP_KIND_BLOCK, 0, 0);
        bool clear = !deltaprof_lock_may_have_waiters(&locks[10]);
        deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED,
                                NULL); /* forked out of a handler, in the middle of the wait */
        clear &= !deltaprof_lock_may_have_waiters(&locks[10]) && sum(DP_KIND_MUTEX, 0, 0).v == before.v;
        clear &= sum(DP_KIND_BLOCK, 0, 0).v == waited.v;
        deltaprof_lock_wait_begin(&wait, &locks[10], DELTAPROF_LOCK_MUTEX, NULL);
        clear &= release(&locks[10]);
        deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
        _exit(clear && !deltaprof_lock_may_have_waiters(&locks[10]) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
    assert_false(deltaprof_lock_may_have_waiters(&locks[10]));
}

TEST(every_kind_of_wait_has_its_label)
{
    static const char *const names[] = {NULL,  "mutex", "rwlock-read", "rwlock-write", "cond",
                                        "sem", "spin",  "barrier",     "join",         "futex"};
    struct dp_label labels[4];
    for (unsigned kind = DELTAPROF_LOCK_MUTEX; kind <= DELTAPROF_LOCK_FUTEX; kind++) {
        assert_int_equal(dp_labels_get(dp_labels_of_lock(kind), labels, 4), 1);
        assert_string_equal(labels->key, "lock");
        assert_string_equal(labels->value, names[kind]);
    }
    assert_int_equal(dp_labels_get(0, labels, 4), 0);
    assert_int_equal(dp_labels_get(dp_labels_of_lock(DELTAPROF_LOCK_GIL), labels, 4), 1);
    assert_string_equal(labels->value, "gil");
    assert_int_equal(dp_labels_of_lock(DELTAPROF_LOCK_GIL + 1), 0);
    assert_int_equal(dp_labels_get(DELTAPROF_LOCK_GIL + 1, labels, 4), 0);
}

UNIT(start, NULL)
