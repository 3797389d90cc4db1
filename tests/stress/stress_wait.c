/* SPDX-License-Identifier: MIT */
/*
 * stress_wait.c - invariant 2 of host/locks/contended.c under threads: when no thread waits, the mutex profile's delay
 * equals the block profile's, to the nanosecond, for each kind of lock; with 2, 8 and 64 threads, timeouts, locks that
 * share a set, locks that are created and destroyed, and stacks captured meanwhile. And all filter bytes are 0 at the
 * end. Pairs of waiters and holders, which other threads read meanwhile, are of one kind of lock, and the pairs of a
 * holder have no more time than the holder.
 */
#include "host/table/labels.h"
#include "host/api/recording.h"
#include "host/heap/live_blocks.h"
#include "host/locks/chain.h"
#include "host/table/table.h"
#include "stress.h"
#include "../support/deadline.h"

#include <deltaprof/hooks.h>
#include <errno.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#define LOCKS 24

static struct dp_config conf;
static pthread_mutex_t mutexes[LOCKS];
static pthread_rwlock_t rwlocks[LOCKS];
static sem_t sem;
static int64_t until_ms;
static _Atomic int64_t turns;

static int64_t total(unsigned kind, unsigned label)
{
    int64_t sum = 0;
    for (uint32_t id = 0; id < dp_table_count(kind); id++) {
        struct dp_counts one;
        dp_table_read(kind, id, &one);
        CHECK(one.n >= 0 && one.v >= 0);
        if (dp_table_record(kind, id)->labels == dp_labels_of_lock(label))
            sum += one.v;
    }
    return sum;
}

/* ---- an interposer ---------------------------------------------------------------------------------------------- */

static enum deltaprof_lock_end end_of(int result)
{
    return result == 0 ? DELTAPROF_ACQUIRED : result == ETIMEDOUT ? DELTAPROF_TIMED_OUT : DELTAPROF_NOT_WAITED;
}

static struct timespec soon(long us)
{
    return time_after(CLOCK_REALTIME, us * 1000);
}

static bool lock_mutex(pthread_mutex_t *m, bool timed)
{
    if (pthread_mutex_trylock(m) == 0)
        return true;
    struct deltaprof_wait wait;
    deltaprof_lock_wait_begin(&wait, m, DELTAPROF_LOCK_MUTEX, NULL);
    struct timespec t = soon(30);
    int result = timed ? pthread_mutex_timedlock(m, &t) : pthread_mutex_lock(m);
    deltaprof_lock_wait_end(&wait, end_of(result), NULL);
    return result == 0;
}

static bool lock_rwlock(pthread_rwlock_t *l, bool write, bool timed)
{
    if ((write ? pthread_rwlock_trywrlock(l) : pthread_rwlock_tryrdlock(l)) == 0)
        return true;
    struct deltaprof_wait wait;
    deltaprof_lock_wait_begin(&wait, l, write ? DELTAPROF_LOCK_WRITE : DELTAPROF_LOCK_READ, NULL);
    struct timespec t = soon(30);
    int result = timed   ? (write ? pthread_rwlock_timedwrlock(l, &t) : pthread_rwlock_timedrdlock(l, &t))
                 : write ? pthread_rwlock_wrlock(l)
                         : pthread_rwlock_rdlock(l);
    deltaprof_lock_wait_end(&wait, end_of(result), NULL);
    return result == 0;
}

#define UNLOCK(lock, real)                                                                               \
    do {                                                                                                 \
        struct deltaprof_owed owed_;                                                                     \
        bool owes_ = deltaprof_lock_may_have_waiters(lock) && deltaprof_lock_unlock_begin(&owed_, lock); \
        real(lock);                                                                                      \
        if (owes_)                                                                                       \
            deltaprof_lock_unlock_end(&owed_, NULL);                                                     \
    } while (0)

/* ---- threads ---------------------------------------------------------------------------------------------------- */

static void hold(uint64_t *random)
{
    for (volatile unsigned i = (unsigned)(stress_random(random) % 400); i; i--)
        ;
}

/* Waits without a holder use the same two calls. */
static void wait_without_holder(enum deltaprof_lock_kind kind)
{
    struct deltaprof_wait wait;
    struct timespec t = soon(5);
    deltaprof_lock_wait_begin(&wait, &sem, kind, NULL);
    int result = sem_timedwait(&sem, &t) == 0 ? 0 : errno;
    if (result == 0)
        sem_post(&sem);
    deltaprof_lock_wait_end(&wait, end_of(result), NULL);
}

static unsigned lock_of(unsigned kind, dp_record_id id)
{
    return dp_labels_lock(dp_table_record(kind, id)->labels);
}

/* A chain that has time is complete. Returns its holder. */
static dp_record_id check_chain(dp_record_id id)
{
    struct dp_counts counts;
    struct dp_chain chain;
    dp_table_read(DP_KIND_CHAIN, id, &counts);
    if (!(counts.n | counts.v))
        return 0;
    CHECK(dp_chain_of(dp_table_record(DP_KIND_CHAIN, id), &chain));
    CHECK(lock_of(DP_KIND_CHAIN, id) == lock_of(DP_KIND_MUTEX, chain.holder));
    if (chain.waiter != DP_CHAIN_UNKNOWN)
        CHECK(lock_of(DP_KIND_BLOCK, chain.waiter) == lock_of(DP_KIND_MUTEX, chain.holder));
    return chain.holder;
}

static void turn(uint64_t *random)
{
    uint64_t r = stress_random(random);
    unsigned which = r % 4 ? 0 : (unsigned)(r >> 8) % LOCKS; /* one hot lock, many cool ones */
    bool timed = (r >> 16) % 8 == 0, write = (r >> 24) % 3 == 0;
    if ((r >> 32) % 2) {
        if (lock_mutex(&mutexes[which], timed)) {
            hold(random);
            UNLOCK(&mutexes[which], pthread_mutex_unlock);
        }
    } else if (lock_rwlock(&rwlocks[which], write, timed)) {
        hold(random);
        UNLOCK(&rwlocks[which], pthread_rwlock_unlock);
    }
    if (r % 128 == 1)
        wait_without_holder(DELTAPROF_LOCK_COND + (unsigned)(r >> 40) % 5);
    if (r % 16 == 3)
        check_chain(1 + (dp_record_id)(r >> 40) % dp_table_count(DP_KIND_CHAIN) % (dp_table_most(DP_KIND_CHAIN) - 1));
    if (r % 64 == 0) { /* the other kind of hook */
        deltaprof_alloc(0, &random, r % 1000 + 1);
        deltaprof_free(0, &random);
    }
    atomic_fetch_add_explicit(&turns, 1, memory_order_relaxed);
}

static void work(unsigned i)
{
    uint64_t random = i * 0x9E3779B97F4A7C15u + 1;
    for (int round = 0; round < 100 || stress_now_ms() < until_ms; round++)
        for (int n = 0; n < 32; n++)
            turn(&random);
}

/* A wait that timed out after the last release left a debt: one more release of each lock pays it. */
static void pay(void)
{
    for (int i = 0; i < LOCKS; i++) {
        pthread_mutex_lock(&mutexes[i]);
        UNLOCK(&mutexes[i], pthread_mutex_unlock);
        pthread_rwlock_wrlock(&rwlocks[i]);
        UNLOCK(&rwlocks[i], pthread_rwlock_unlock);
    }
}

/* The chains of each holder have its time. Returns the number of chains with a waiter. */
static unsigned check_chains(void)
{
    unsigned n = 0;
    for (dp_record_id id = 1; id < dp_table_count(DP_KIND_MUTEX); id++) {
        int64_t sum = 0;
        struct dp_counts counts;
        dp_table_read(DP_KIND_MUTEX, id, &counts);
        for (dp_record_id other = 1; other < dp_table_count(DP_KIND_CHAIN); other++) {
            struct dp_counts part;
            struct dp_chain chain;
            if (check_chain(other) != id)
                continue;
            dp_table_read(DP_KIND_CHAIN, other, &part);
            dp_chain_of(dp_table_record(DP_KIND_CHAIN, other), &chain);
            sum += part.v;
            n += chain.waiter != DP_CHAIN_UNKNOWN;
        }
        CHECK(sum == counts.v, "%lld of %lld", (long long)sum, (long long)counts.v);
    }
    return n;
}

static void balance(unsigned n_threads)
{
    pay();
    for (unsigned label = DELTAPROF_LOCK_MUTEX; label <= DELTAPROF_LOCK_WRITE; label++) {
        int64_t mutex = total(DP_KIND_MUTEX, label), block = total(DP_KIND_BLOCK, label);
        printf("%u threads, label %u: mutex %lld ns, block %lld ns\n", n_threads, label, (long long)mutex,
               (long long)block);
        CHECK(mutex == block && mutex == total(DP_KIND_CHAIN, label));
    }
    for (unsigned set = 0; set < DELTAPROF_LOCK_SETS; set++)
        CHECK(!deltaprof_lock_filter[set]);
}

int main(void)
{
    static const unsigned threads[] = {2, 8, 64};
    dp_config_init(&conf);
    conf.mutex_rate = 1;
    conf.block_rate_ns = 1;
    conf.heap_rate = 1;
    CHECK(dp_record_init(&conf) == 0);
    dp_record_tune(&conf, true);
    sem_init(&sem, 0, 1);
    for (int i = 0; i < LOCKS; i++) {
        pthread_mutex_init(&mutexes[i], NULL);
        pthread_rwlock_init(&rwlocks[i], NULL);
    }
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        until_ms = stress_now_ms() + stress_length_ms();
        stress_threads(threads[i], work);
        balance(threads[i]);
    }
    for (unsigned label = DELTAPROF_LOCK_MUTEX; label <= DELTAPROF_LOCK_JOIN; label++)
        CHECK(total(DP_KIND_BLOCK, label) > 0);
    for (unsigned label = DELTAPROF_LOCK_COND; label <= DELTAPROF_LOCK_JOIN; label++)
        CHECK(total(DP_KIND_MUTEX, label) == 0);
    unsigned n_chains = check_chains();
    CHECK(n_chains >= 3);
    printf("%lld turns, %u chains\n", (long long)atomic_load(&turns), n_chains);
    return 0;
}
