/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/stats.h"
#include "store/contended.h"
#include "record/labels.h"
#include "record/record.h"
#include "record/wait.h"
#include "store/table.h"

#include <deltaprof/hooks.h>

static struct dp_config conf;
static uint64_t locks[4096]; /* only their addresses matter */

static void tune(int64_t mutex_rate, int64_t block_rate_ns)
{
    conf.mutex_rate = mutex_rate;
    conf.block_rate_ns = block_rate_ns;
    dp_record_tune(&conf, true);
}

static int start(void **state)
{
    dp_config_init(&conf);
    conf.heap_rate = 0;
    tune(1, 1);
    return dp_record_init(&conf);
}

/* Sums of one kind of profile over the rows with this label (0: all) and leaf frame (0: all). */
static struct dp_counts sum(unsigned kind, unsigned label, dp_frame_id leaf)
{
    struct dp_counts sum = {0}, one;
    for (uint32_t id = 0; id < dp_table_count(kind); id++) {
        const struct dp_record *record = dp_table_record(kind, id);
        if ((label && record->labels != dp_labels_of_lock(label)) || (leaf && dp_table_frames(record)[0] != leaf))
            continue;
        dp_table_read(kind, id, &one);
        sum.n += one.n, sum.v += one.v;
    }
    return sum;
}

static struct dp_counts before_mutex[DP_LABELS_LOCKS], before_block[DP_LABELS_LOCKS];
static void mark(void)
{
    for (unsigned label = 0; label < DP_LABELS_LOCKS; label++) {
        before_mutex[label] = sum(DP_KIND_MUTEX, label, 0);
        before_block[label] = sum(DP_KIND_BLOCK, label, 0);
    }
}
static int64_t mutex_ns(unsigned label)
{
    return sum(DP_KIND_MUTEX, label, 0).v - before_mutex[label].v;
}
static int64_t block_ns(unsigned label)
{
    return sum(DP_KIND_BLOCK, label, 0).v - before_block[label].v;
}
static int64_t contentions(unsigned label)
{
    return sum(DP_KIND_MUTEX, label, 0).n - before_mutex[label].n;
}

static void pass_ms(long ms)
{
    nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

static bool release(const void *lock)
{
    struct deltaprof_owed owed;
    if (!deltaprof_lock_may_have_waiters(lock) || !deltaprof_lock_release_begin(&owed, lock))
        return false;
    deltaprof_lock_release_end(&owed, NULL);
    return true;
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

static void a_wait_is_charged_to_who_let_go(void **state)
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

static void a_timeout_is_a_debt_of_the_next_release(void **state)
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

static void what_was_no_wait_leaves_no_trace(void **state)
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

static void readers_and_writers_are_told_apart(void **state)
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

static void an_interpreter_s_lock_has_a_holder(void **state)
{
    struct deltaprof_wait wait;
    mark();
    deltaprof_lock_wait_begin(&wait, &locks[5], DELTAPROF_LOCK_GIL, NULL);
    assert_true(release(&locks[5]));
    deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
    assert_true(block_ns(DELTAPROF_LOCK_GIL) > 0);
    assert_int_equal(mutex_ns(DELTAPROF_LOCK_GIL), block_ns(DELTAPROF_LOCK_GIL));
}

static void what_has_no_holder_stands_in_one_profile(void **state)
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

static void an_unknown_holder_is_named_so(void **state)
{
    struct deltaprof_wait wait;
    struct dp_counts before = sum(DP_KIND_MUTEX, 0, DP_FRAME_UNKNOWN_HOLDER);
    mark();
    deltaprof_lock_wait_begin(&wait, NULL, DELTAPROF_LOCK_MUTEX, NULL);
    deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
    assert_int_equal(sum(DP_KIND_MUTEX, 0, DP_FRAME_UNKNOWN_HOLDER).n - before.n, 1);
    assert_int_equal(mutex_ns(0), block_ns(0));
}

static void a_lock_that_ends_takes_its_debt_along(void **state)
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
static void a_full_table_keeps_totals(void **state)
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

static void more_waiters_than_a_word_can_count_keep_totals(void **state)
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

static void a_guarded_thread_tells_nothing(void **state)
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

static void rates_of_0_record_nothing(void **state)
{
    struct deltaprof_wait wait;
    mark();
    tune(0, 1);
    deltaprof_lock_wait_begin(&wait, &locks[8], DELTAPROF_LOCK_MUTEX, NULL);
    assert_false(deltaprof_lock_may_have_waiters(&locks[8]));
    deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
    assert_true(block_ns(0) > 0 && mutex_ns(0) == 0);
    mark();
    tune(1, 0);
    deltaprof_lock_wait_begin(&wait, &locks[8], DELTAPROF_LOCK_MUTEX, NULL);
    deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
    assert_true(block_ns(0) == 0 && mutex_ns(0) > 0);
    mark();
    tune(0, 0);
    deltaprof_lock_wait_begin(&wait, &locks[8], DELTAPROF_LOCK_MUTEX, NULL);
    deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, NULL);
    assert_true(block_ns(0) == 0 && mutex_ns(0) == 0);
    tune(1, 1);
}

/* p = wait/rate, delay = rate: mean = wait, variance = wait * (rate - wait); counts have mean 1 and at most rate/wait.
 */
static void short_waits_are_weighed_without_bias(void **state)
{
    static const int64_t waits[] = {1, 7, 100, 999, 3500, 5000, 6000, 9999, 10000, 25000};
    const int64_t rate = 10000;
    const double n_draws = 400000;
    uint64_t seed = 12345;
    for (size_t w = 0; w < sizeof waits / sizeof *waits; w++) {
        double n = 0, delay = 0, wait = (double)waits[w];
        for (int i = 0; i < n_draws; i++) {
            int64_t d, c = dp_wait_weigh(waits[w], rate, dp_hash_mix(seed++), &d);
            n += (double)c;
            delay += c ? (double)d : 0;
        }
        double sigma = wait < rate ? sqrt(wait * ((double)rate - wait) / n_draws) : 0;
        assert_true(fabs(delay / n_draws - wait) <= 4 * sigma + 1e-9);
        double sigma_n = wait < rate ? sqrt((double)rate / wait / n_draws) : 0;
        assert_true(fabs(n / n_draws - 1) <= 4 * sigma_n + 1e-9);
    }
    int64_t delay;
    assert_int_equal(dp_wait_weigh(0, 1, 77, &delay), 1); /* 1ns: every one */
    assert_int_equal(dp_wait_weigh(0, 10, 0, &delay), 0);
}

static void one_in_n_releases_is_recorded_n_fold(void **state)
{
    const int n = 20000, rate = 10;
    mark();
    tune(rate, 1);
    for (int i = 0; i < n; i++) {
        struct deltaprof_wait wait;
        deltaprof_lock_wait_begin(&wait, &locks[9], DELTAPROF_LOCK_READ, NULL);
        release(&locks[9]);
        deltaprof_lock_wait_end(&wait, DELTAPROF_TIMED_OUT, NULL); /* no hand-over, which is never sampled */
    }
    tune(1, 1);
    int64_t count = contentions(DELTAPROF_LOCK_READ);
    assert_int_equal(count % rate, 0);
    /* n draws of p = 1/rate, each worth rate */
    assert_true(fabs((double)count - n) < 4 * sqrt((double)n * (rate - 1)));
    release(&locks[9]);
}

/* Captures of stacks are limited in time, so their number depends on the time that the loop takes. */
static void many_short_debts_are_few_samples_and_the_same_sum(void **state)
{
    enum { MANY = 200000, OWED_NS = 20000, SCALE_NS = 1000000, BURST = 1000 };
    struct deltaprof_owed owed = {.ns = {[0] = (int64_t)(uintptr_t)&locks[20], [DELTAPROF_LOCK_WRITE] = OWED_NS}};
    mark();
    tune(1, 1000);
    uint64_t before = dp_stats_read(DP_STAT_SAMPLES);
    int64_t begin_ns = dp_clock_ns();
    for (int i = 0; i < MANY; i++)
        deltaprof_lock_release_end(&owed, NULL);
    int64_t took_ns = dp_clock_ns() - begin_ns;
    tune(1, 1);
    double p = (double)OWED_NS / SCALE_NS, sigma = sqrt(MANY * p * (1 - p));
    double most = BURST + 1 + (double)took_ns / SCALE_NS + MANY * p + 5 * sigma;
    assert_true((double)(dp_stats_read(DP_STAT_SAMPLES) - before) <= most);
    struct dp_counts sums = sum(DP_KIND_MUTEX, DELTAPROF_LOCK_WRITE, 0);
    sums.n -= before_mutex[DELTAPROF_LOCK_WRITE].n, sums.v -= before_mutex[DELTAPROF_LOCK_WRITE].v;
    assert_true(fabs((double)sums.v - (double)MANY * OWED_NS) <= 5 * sigma * SCALE_NS);
    assert_true(fabs((double)sums.n - MANY) <= 5 * sigma / p);
    mark();
    for (int i = 0; i < MANY; i++) /* 1ns: every one */
        deltaprof_lock_release_end(&owed, NULL);
    sums = sum(DP_KIND_MUTEX, DELTAPROF_LOCK_WRITE, 0);
    assert_int_equal(sums.v - before_mutex[DELTAPROF_LOCK_WRITE].v, (int64_t)MANY * OWED_NS);
    assert_int_equal(sums.n - before_mutex[DELTAPROF_LOCK_WRITE].n, MANY);
}

static void a_wake_of_two_classes_is_one_release(void **state)
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

static void nobody_waits_in_a_forked_child(void **state)
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

static void every_kind_of_wait_has_its_label(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_is_charged_to_who_let_go),
        cmocka_unit_test(a_timeout_is_a_debt_of_the_next_release),
        cmocka_unit_test(what_was_no_wait_leaves_no_trace),
        cmocka_unit_test(readers_and_writers_are_told_apart),
        cmocka_unit_test(an_interpreter_s_lock_has_a_holder),
        cmocka_unit_test(what_has_no_holder_stands_in_one_profile),
        cmocka_unit_test(an_unknown_holder_is_named_so),
        cmocka_unit_test(a_lock_that_ends_takes_its_debt_along),
        cmocka_unit_test(a_full_table_keeps_totals),
        cmocka_unit_test(more_waiters_than_a_word_can_count_keep_totals),
        cmocka_unit_test(a_guarded_thread_tells_nothing),
        cmocka_unit_test(rates_of_0_record_nothing),
        cmocka_unit_test(short_waits_are_weighed_without_bias),
        cmocka_unit_test(one_in_n_releases_is_recorded_n_fold),
        cmocka_unit_test(a_wake_of_two_classes_is_one_release),
        cmocka_unit_test(many_short_debts_are_few_samples_and_the_same_sum),
        cmocka_unit_test(nobody_waits_in_a_forked_child),
        cmocka_unit_test(every_kind_of_wait_has_its_label),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
