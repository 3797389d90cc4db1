/* SPDX-License-Identifier: MIT */
/* victim_lock_results.c - prints the return codes of mutexes and rwlocks. Exit 1: one is not as POSIX says. */
#include "../../support/lock_results.h"

/* ---- mutexes ---------------------------------------------------------------------------------------------------- */

static void *others_turn(void *arg)
{
    pthread_mutex_t *m = arg;
    struct timespec soon = in_ms(CLOCK_REALTIME, 20), soon_mono = in_ms(CLOCK_MONOTONIC, 20);
    SAYS(EBUSY, pthread_mutex_trylock(m));
    SAYS(ETIMEDOUT, pthread_mutex_timedlock(m, &past));
    SAYS(ETIMEDOUT, pthread_mutex_timedlock(m, &soon));
    SAYS(ETIMEDOUT, pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &soon_mono));
    SAYS(EINVAL, pthread_mutex_timedlock(m, &bad));
    SAYS(EINVAL, pthread_mutex_timedlock(m, &negative));
    SAYS(EINVAL, pthread_mutex_clocklock(m, CLOCK_PROCESS_CPUTIME_ID, &soon));
    return NULL;
}

static void *others_unlock(void *arg)
{
    SAYS(EPERM, pthread_mutex_unlock(arg));
    return NULL;
}

static void a_type(const char *name, int type, int robust, int protocol, int shared)
{
    pthread_mutex_t m_, *m = made(&m_, type, robust, protocol, shared);
    int knows_owner = type == PTHREAD_MUTEX_ERRORCHECK || type == PTHREAD_MUTEX_RECURSIVE || robust;
    printf("- %s\n", name);
    SAYS(0, pthread_mutex_lock(m));
    if (type == PTHREAD_MUTEX_ERRORCHECK) {
        SAYS(EDEADLK, pthread_mutex_lock(m));
        SAYS(EDEADLK, pthread_mutex_timedlock(m, &past));
        SAYS(robust || protocol ? EDEADLK : EBUSY, pthread_mutex_trylock(m));
    } else if (type == PTHREAD_MUTEX_RECURSIVE) {
        SAYS(0, pthread_mutex_lock(m));
        SAYS(0, pthread_mutex_trylock(m));
        SAYS(0, pthread_mutex_timedlock(m, &past));
        unsigned count = m->__data.__count;
        m->__data.__count = UINT32_MAX;
        SAYS(EAGAIN, pthread_mutex_lock(m));
        SAYS(EAGAIN, pthread_mutex_trylock(m));
        SAYS(EAGAIN, pthread_mutex_timedlock(m, &past));
        m->__data.__count = count;
        SAYS(0, pthread_mutex_unlock(m));
        SAYS(0, pthread_mutex_unlock(m));
        SAYS(0, pthread_mutex_unlock(m));
    }
    elsewhere(others_turn, m);
    if (knows_owner)
        elsewhere(others_unlock, m);
    if (!robust && !protocol)
        SAYS(EBUSY, pthread_mutex_destroy(m));
    SAYS(0, pthread_mutex_unlock(m));
    if (knows_owner)
        SAYS(EPERM, pthread_mutex_unlock(m));
    struct timespec soon = in_ms(CLOCK_REALTIME, 1000);
    SAYS(EINVAL, pthread_mutex_clocklock(m, CLOCK_PROCESS_CPUTIME_ID, &soon));
    SAYS(0, pthread_mutex_timedlock(m, &soon));
    SAYS(0, pthread_mutex_unlock(m));
    SAYS(EINVAL, robust ? EINVAL : pthread_mutex_consistent(m));
    SAYS(0, pthread_mutex_destroy(m));
    SAYS(EINVAL, pthread_mutex_lock(m));
}

static void *locks_and_dies(void *arg)
{
    pthread_mutex_lock(arg);
    return NULL;
}

struct waiting {
    pthread_mutex_t *m;
    int result;
};
static void *waits_for(void *arg)
{
    struct waiting *w = arg;
    w->result = pthread_mutex_lock(w->m);
    if (w->result == EOWNERDEAD)
        pthread_mutex_consistent(w->m);
    if (w->result == 0 || w->result == EOWNERDEAD)
        pthread_mutex_unlock(w->m);
    return NULL;
}
static sem_t held;
static void *dies_while_awaited(void *arg)
{
    pthread_mutex_lock(arg);
    sem_post(&held);
    usleep(50000);
    return NULL;
}

static void robustness(const char *name, int type, int protocol)
{
    pthread_mutex_t m_, *m = made(&m_, type, PTHREAD_MUTEX_ROBUST, protocol, 0);
    struct timespec soon = in_ms(CLOCK_REALTIME, 1000);
    printf("- robust, %s\n", name);
    elsewhere(locks_and_dies, m);
    SAYS(EOWNERDEAD, pthread_mutex_lock(m));
    SAYS(0, pthread_mutex_consistent(m));
    SAYS(0, pthread_mutex_unlock(m));
    elsewhere(locks_and_dies, m);
    SAYS(EOWNERDEAD, pthread_mutex_trylock(m));
    SAYS(0, pthread_mutex_consistent(m));
    SAYS(0, pthread_mutex_unlock(m));
    elsewhere(locks_and_dies, m);
    SAYS(EOWNERDEAD, pthread_mutex_timedlock(m, &soon));
    SAYS(0, pthread_mutex_consistent(m));
    SAYS(0, pthread_mutex_unlock(m));

    pthread_t holder, waiter;
    sem_init(&held, 0, 0);
    pthread_create(&holder, NULL, dies_while_awaited, m);
    sem_wait(&held);
    struct waiting w = {m, -1};
    pthread_create(&waiter, NULL, waits_for, &w);
    pthread_join(holder, NULL);
    pthread_join(waiter, NULL);
    SAYS(EOWNERDEAD, w.result);

    elsewhere(locks_and_dies, m);
    SAYS(EOWNERDEAD, pthread_mutex_lock(m));
    pthread_create(&waiter, NULL, waits_for, &w);
    usleep(20000);
    SAYS(0, pthread_mutex_unlock(m)); /* not made consistent */
    pthread_join(waiter, NULL);
    SAYS(ENOTRECOVERABLE, w.result);
    SAYS(ENOTRECOVERABLE, pthread_mutex_lock(m));
    SAYS(ENOTRECOVERABLE, pthread_mutex_lock(m));
    SAYS(ENOTRECOVERABLE, pthread_mutex_timedlock(m, &soon));
    SAYS(ENOTRECOVERABLE, pthread_mutex_trylock(m));
    SAYS(0, pthread_mutex_destroy(m));
}

/* ---- read-write locks ------------------------------------------------------------------------------------------- */

static void *others_rwlock(void *arg)
{
    pthread_rwlock_t *l = arg;
    struct timespec soon = in_ms(CLOCK_REALTIME, 20), mono = in_ms(CLOCK_MONOTONIC, 20);
    SAYS(EBUSY, pthread_rwlock_tryrdlock(l));
    SAYS(EBUSY, pthread_rwlock_trywrlock(l));
    SAYS(ETIMEDOUT, pthread_rwlock_timedrdlock(l, &soon));
    SAYS(ETIMEDOUT, pthread_rwlock_timedwrlock(l, &soon));
    SAYS(ETIMEDOUT, pthread_rwlock_clockrdlock(l, CLOCK_MONOTONIC, &mono));
    SAYS(ETIMEDOUT, pthread_rwlock_clockwrlock(l, CLOCK_MONOTONIC, &mono));
    return NULL;
}

static void *others_read(void *arg)
{
    pthread_rwlock_t *l = arg;
    SAYS(0, pthread_rwlock_rdlock(l));
    SAYS(0, pthread_rwlock_unlock(l));
    SAYS(EBUSY, pthread_rwlock_trywrlock(l));
    SAYS(ETIMEDOUT, pthread_rwlock_timedwrlock(l, &past));
    return NULL;
}

static void rwlocks(int kind)
{
    pthread_rwlockattr_t a;
    pthread_rwlock_t l_, *l = &l_;
    pthread_rwlockattr_init(&a);
    pthread_rwlockattr_setkind_np(&a, kind);
    pthread_rwlock_init(l, &a);
    struct timespec soon = in_ms(CLOCK_REALTIME, 1000);
    printf("- rwlock of kind %d\n", kind);
    SAYS(0, pthread_rwlock_wrlock(l));
    SAYS(EDEADLK, pthread_rwlock_wrlock(l));
    SAYS(EDEADLK, pthread_rwlock_rdlock(l));
    SAYS(EDEADLK, pthread_rwlock_timedrdlock(l, &soon));
    elsewhere(others_rwlock, l);
    SAYS(0, pthread_rwlock_unlock(l));
    SAYS(0, pthread_rwlock_rdlock(l));
    SAYS(0, pthread_rwlock_tryrdlock(l));
    elsewhere(others_read, l);
    unsigned readers = l->__data.__readers;
    l->__data.__readers = 0x7ffffff8u | (readers & 7);
    SAYS(EAGAIN, pthread_rwlock_rdlock(l));
    SAYS(EAGAIN, pthread_rwlock_tryrdlock(l));
    l->__data.__readers = readers;
    SAYS(0, pthread_rwlock_unlock(l));
    SAYS(0, pthread_rwlock_unlock(l));
    SAYS(EINVAL, pthread_rwlock_timedrdlock(l, &bad));
    SAYS(EINVAL, pthread_rwlock_timedwrlock(l, &negative));
    SAYS(EINVAL, pthread_rwlock_clockrdlock(l, CLOCK_PROCESS_CPUTIME_ID, &soon));
    SAYS(EINVAL, pthread_rwlock_clockwrlock(l, CLOCK_PROCESS_CPUTIME_ID, &soon));
    SAYS(0, pthread_rwlock_timedwrlock(l, &past));
    SAYS(0, pthread_rwlock_unlock(l));
    SAYS(0, pthread_rwlock_destroy(l));
}

int main(void)
{
    have_threads();
    a_type("normal", PTHREAD_MUTEX_NORMAL, 0, 0, 0);
    a_type("error-checking", PTHREAD_MUTEX_ERRORCHECK, 0, 0, 0);
    a_type("recursive", PTHREAD_MUTEX_RECURSIVE, 0, 0, 0);
    a_type("adaptive", PTHREAD_MUTEX_ADAPTIVE_NP, 0, 0, 0);
    a_type("process-shared", PTHREAD_MUTEX_NORMAL, 0, 0, PTHREAD_PROCESS_SHARED);
    a_type("robust", PTHREAD_MUTEX_NORMAL, 1, 0, 0);
    a_type("robust error-checking", PTHREAD_MUTEX_ERRORCHECK, 1, 0, 0);
    a_type("inheriting", PTHREAD_MUTEX_NORMAL, 0, PTHREAD_PRIO_INHERIT, 0);
    a_type("inheriting error-checking", PTHREAD_MUTEX_ERRORCHECK, 0, PTHREAD_PRIO_INHERIT, 0);
    a_type("inheriting recursive", PTHREAD_MUTEX_RECURSIVE, 0, PTHREAD_PRIO_INHERIT, 0);
    robustness("normal", PTHREAD_MUTEX_NORMAL, 0);
    robustness("inheriting", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT);
    rwlocks(PTHREAD_RWLOCK_PREFER_READER_NP);
    rwlocks(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    return broken;
}
