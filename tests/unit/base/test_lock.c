/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "base/epoch.h"
#include "base/lock.h"

static struct dp_lock lock;
static struct dp_epoch_lock epoch_lock;

static void *run(void *(*body)(void *), void *arg)
{
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, body, arg), 0);
    pthread_join(thread, &result);
    return result;
}

static void *try_lock(void *unused)
{
    if (dp_lock_try(&lock) || dp_lock_is_mine(&lock) || dp_lock_lock_until(&lock, dp_clock_ns()))
        return NULL;
    return &lock;
}

TEST(a_lock_has_one_holder_who_knows_it)
{
    assert_false(dp_lock_is_mine(&lock));
    assert_true(dp_lock_try(&lock));
    assert_true(dp_lock_is_mine(&lock));
    assert_false(dp_lock_try(&lock));
    assert_false(dp_lock_lock_until(&lock, INT64_MAX)); /* would wait for itself */
    assert_non_null(run(try_lock, NULL));
    assert_true(dp_lock_is_mine(&lock)); /* now it has a mark that a thread waited */
    dp_lock_unlock(&lock);
    assert_false(dp_lock_is_mine(&lock));
    assert_null(run(try_lock, NULL)); /* which ends with the lock */
    assert_false(dp_lock_try(&lock));
    dp_lock_reset(&lock);
    assert_true(dp_lock_lock_until(&lock, 0)); /* free: no time is needed */
    dp_lock_unlock(&lock);
}

static void *wait_for_lock(void *n)
{
    dp_lock_lock(&lock);
    ++*(int *)n;
    dp_lock_unlock(&lock);
    return NULL;
}

TEST(all_waiters_get_a_lock_in_turn)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    int n = 0;
    dp_lock_lock(&lock);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_lock, &n), 0);
    while (!(dp_load_relaxed(&lock.word) & DP_LOCK_WAITED))
        sched_yield();
    assert_int_equal(n, 0);
    dp_lock_unlock(&lock);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(n, THREADS);
    assert_int_equal(dp_load_relaxed(&lock.word), 0);
}

static void *try_epoch(void *unused)
{
    return dp_epoch_lock(&epoch_lock, false) == -EAGAIN ? &epoch_lock : NULL;
}

static void *wait_for_epoch(void *n)
{
    int stale = dp_epoch_lock(&epoch_lock, true);
    ++*(int *)n;
    dp_epoch_unlock(&epoch_lock);
    return stale ? &epoch_lock : NULL;
}

TEST(a_fork_frees_the_locks_of_the_parent)
{
    assert_int_equal(dp_epoch_lock(&epoch_lock, true), 0);
    assert_non_null(run(try_epoch, NULL));
    dp_epoch_fork_child();
    assert_int_equal(dp_epoch_lock(&epoch_lock, false), 1);
    assert_non_null(run(try_epoch, NULL));
    dp_epoch_unlock(&epoch_lock);
    assert_int_equal(dp_epoch_lock(&epoch_lock, false), 0); /* that was said once */
    dp_epoch_unlock(&epoch_lock);
    dp_epoch_fork_child();
    assert_int_equal(dp_epoch_lock(&epoch_lock, false), 0); /* it was free at the fork */
    dp_epoch_unlock(&epoch_lock);
}

TEST(a_fork_frees_locks_that_were_waited_for)
{
    pthread_t thread;
    void *stale;
    int n = 0;
    assert_int_equal(dp_epoch_lock(&epoch_lock, true), 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_epoch, &n), 0);
    while ((dp_load_relaxed(&epoch_lock.word) & 3) != 2)
        sched_yield();
    assert_int_equal(n, 0);
    assert_non_null(run(try_epoch, NULL));
    dp_epoch_unlock(&epoch_lock);
    pthread_join(thread, &stale);
    assert_null(stale);
    assert_int_equal(n, 1);
    dp_store_relaxed(&epoch_lock.word, dp_epoch() << 2 | 2);
    dp_epoch_fork_child();
    assert_int_equal(dp_epoch_lock(&epoch_lock, true), 1);
    dp_epoch_unlock(&epoch_lock);
}

UNIT(NULL, NULL)
