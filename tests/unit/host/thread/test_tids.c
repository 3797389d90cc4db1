/* SPDX-License-Identifier: MIT */
/*
 * test_tids.c - interleavings of threads through tids.c itself, and threads that enter and remove ids for real.
 *
 * tids.c is compiled in with each atomic operation as a point where another thread may go on (schedules.h). What must
 * hold in the end: an id stands in one place at most, and as many threads were told that they have entered it; in one
 * place exactly, if no thread used up its tries. A thread that enters its own id finds it at once. Two of the places
 * that the id leads to are in use by other ids and become free meanwhile.
 */
#include "support/unit.h"
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/atomic.h"
#include "support/schedules.h"

#undef dp_load_acquire
#undef dp_load_total
#undef dp_store_release
#undef dp_cas_total
#undef dp_cas_publish
#define dp_load_acquire(p)             (step(p), atomic_load(p))
#define dp_load_total(p)               (step(p), atomic_load(p))
#define dp_store_release(p, v)         (step(p), atomic_store(p, v))
#define dp_cas_total(p, expected, v)   (step(p), atomic_compare_exchange_strong(p, expected, v))
#define dp_cas_publish(p, expected, v) (step(p), atomic_compare_exchange_strong(p, expected, v))
static void step(_Atomic int32_t *place);
#include "host/thread/tids.c"

enum { ID = 4096, THREADS = 4, BUSY = 2 /* places of ID that other ids have at first */ };

static struct dp_tids tids;
static unsigned n_entered, n_gave_up, n_twice, n_none;

/* At the places that two threads write: at the others no order makes a difference. */
static void step(_Atomic int32_t *place)
{
    for (uint32_t i = 0; i <= BUSY + 1; i++)
        if (place == &tids.at[place_of(ID, i)])
            schedules_step();
}

/* An id other than ID whose first place is place i of ID. */
static int32_t id_at(uint32_t i)
{
    return ID + DP_TIDS_MAX + (int32_t)i;
}

static bool enter(int32_t id)
{
    for (unsigned i = 0; i < DP_TIDS_TRIES && !dp_tids_find(&tids, id); i++) {
        uint32_t slot = dp_tids_claim(&tids, id);
        if (slot && dp_tids_publish(&tids, slot, id))
            return true;
    }
    return false;
}

static unsigned count_places(int32_t id)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < DP_TIDS_MAX; i++)
        n += tids.at[i] == id;
    return n;
}

/* ---- in every order ---- */

static void begin(void)
{
    memset(&tids, 0, sizeof tids);
    n_entered = n_gave_up = 0;
    for (uint32_t i = 0; i < BUSY; i++)
        if (!enter(id_at(i)))
            n_twice++; /* a test that begins wrong fails */
}

static void end(void)
{
    n_twice += count_places(ID) > 1 || n_entered != count_places(ID);
    n_none += !n_entered && !n_gave_up;
    for (uint32_t i = 0; i < DP_TIDS_MAX; i++)
        n_twice += tids.at[i] < 0; /* a claim is left */
}

static void enters(unsigned thread)
{
    bool entered = enter(ID);
    n_entered += entered;
    n_gave_up += !entered && !dp_tids_find(&tids, ID);
}

static void enters_own(unsigned thread)
{
    uint32_t slot = dp_tids_find(&tids, ID) ? 0 : dp_tids_claim(&tids, ID);
    n_entered += slot && dp_tids_publish_own(&tids, slot, ID);
    n_none += !dp_tids_find(&tids, ID);
}

static void removes(unsigned thread)
{
    for (uint32_t i = BUSY; i-- > 0;)
        if (!dp_tids_remove(&tids, dp_tids_find(&tids, id_at(i)), id_at(i)))
            n_twice++;
}

static void explore(unsigned preemptions, unsigned n, ...)
{
    va_list scripts;
    va_start(scripts, n);
    schedules_explore(begin, end, preemptions, n, scripts);
    va_end(scripts);
}

TEST(an_id_is_entered_once_in_every_order)
{
    explore(3, 2, enters, enters);
    assert_true(schedules.n_runs > 1000);
    explore(2, 3, enters, removes, enters);
    assert_true(schedules.n_runs > 1000);
    explore(4, 2, enters, enters_own);
    explore(4, 2, enters_own, enters);
    explore(2, 3, enters, removes, enters_own);
    explore(3, 3, removes, enters, enters_own);
    assert_true(schedules.n_runs > 1000);
    assert_int_equal(n_twice, 0);
    assert_int_equal(n_none, 0);
}

/* ---- with threads ---- */

static _Atomic unsigned n_all_entered;
static unsigned data[DP_TIDS_MAX]; /* of the slots: written by the thread that claims one, as by users of the table */
static pthread_barrier_t barrier;

static void *enters_and_removes(void *unused)
{
    for (int turn = 0; turn < 3000; turn++) {
        int32_t id = ID + turn % 3;
        pthread_barrier_wait(&barrier);
        for (unsigned i = 0; i < DP_TIDS_TRIES && !dp_tids_find(&tids, id); i++) {
            uint32_t slot = dp_tids_claim(&tids, id);
            if (!slot)
                break;
            data[slot - 1] = (unsigned)id;
            if (dp_tids_publish(&tids, slot, id))
                atomic_fetch_add(&n_all_entered, 1);
        }
        pthread_barrier_wait(&barrier);
        uint32_t slot = dp_tids_find(&tids, id);
        if (slot && dp_tids_get(&tids, slot) == id && data[slot - 1] == (unsigned)id && dp_tids_remove(&tids, slot, id))
            atomic_fetch_sub(&n_all_entered, 1);
    }
    return unused;
}

TEST(each_id_is_entered_as_often_as_it_is_removed)
{
    pthread_t threads[THREADS];
    memset(&tids, 0, sizeof tids);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, enters_and_removes, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(n_all_entered, 0);
    for (uint32_t i = 0; i < DP_TIDS_MAX; i++)
        assert_int_equal(tids.at[i], 0);
}

UNIT(NULL, NULL)
