/* SPDX-License-Identifier: MIT */
/*
 * victim_lock_results.c - every documented answer of the lock functions, as a table: `call: result errno`.
 * Run bare and under the preload object; both must say the same, and what POSIX and glibc promise. Exit 1: a broken
 * promise.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static int broken;

static const char *name_of(int code)
{
    static char number[16];
    const char *name = code > 0 ? strerrorname_np(code) : NULL;
    snprintf(number, sizeof number, "%d", code);
    return name ? name : number;
}

/* errno is 77 before each call, and must be after it unless the call reports by errno. */
#define SAYS(expected, call)                                             \
    do {                                                                 \
        errno = 77;                                                      \
        int result_ = (call);                                            \
        int errno_ = errno;                                              \
        printf("%s: %s %s\n", #call, name_of(result_), name_of(errno_)); \
        if (result_ != (expected)) {                                     \
            printf("  promised: %s\n", name_of(expected));               \
            broken = 1;                                                  \
        }                                                                \
    } while (0)
#define SETS(expected, call)                                     \
    do {                                                         \
        SAYS(-1, call);                                          \
        if (errno != (expected)) {                               \
            printf("  promised errno: %s\n", name_of(expected)); \
            broken = 1;                                          \
        }                                                        \
    } while (0)

static struct timespec in_ms(clockid_t clock, long ms)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += ms * 1000000;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}
static const struct timespec past = {1, 0}, bad = {1, 1000000000}, negative = {1, -1};

/* Runs fn(arg) in a thread of its own, to its end. */
static void elsewhere(void *(*fn)(void *), void *arg)
{
    pthread_t t;
    pthread_create(&t, NULL, fn, arg);
    pthread_join(t, NULL);
}

static pthread_mutex_t *made(pthread_mutex_t *m, int type, int robust, int protocol, int shared)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, type);
    pthread_mutexattr_setrobust(&a, robust);
    pthread_mutexattr_setprotocol(&a, protocol);
    pthread_mutexattr_setpshared(&a, shared);
    pthread_mutex_init(m, &a);
    return m;
}

/* ---- mutexes ------------------------------------------------------------------------------------------------------
 */

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
static void *dies_while_awaited(void *arg)
{
    pthread_mutex_lock(arg);
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
    pthread_create(&holder, NULL, dies_while_awaited, m);
    usleep(20000);
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

/* ---- read-write locks ---------------------------------------------------------------------------------------------
 */

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

/* ---- conditions, semaphores, the rest -----------------------------------------------------------------------------
 */

static void conditions(void)
{
    pthread_cond_t c = PTHREAD_COND_INITIALIZER;
    pthread_mutex_t m_, *m = made(&m_, PTHREAD_MUTEX_ERRORCHECK, 0, 0, 0);
    struct timespec soon = in_ms(CLOCK_REALTIME, 20), mono = in_ms(CLOCK_MONOTONIC, 20);
    printf("- conditions\n");
    SAYS(EPERM, pthread_cond_wait(&c, m));
    SAYS(0, pthread_mutex_lock(m));
    SAYS(ETIMEDOUT, pthread_cond_timedwait(&c, m, &past));
    SAYS(ETIMEDOUT, pthread_cond_timedwait(&c, m, &soon));
    SAYS(ETIMEDOUT, pthread_cond_clockwait(&c, m, CLOCK_MONOTONIC, &mono));
    SAYS(EINVAL, pthread_cond_timedwait(&c, m, &bad));
    SAYS(EINVAL, pthread_cond_clockwait(&c, m, CLOCK_PROCESS_CPUTIME_ID, &soon));
    SAYS(0, pthread_mutex_unlock(m)); /* it was ours again each time */
}

static void nothing(int signal)
{
    (void)signal;
}

static void semaphores(void)
{
    sem_t s;
    struct timespec soon = in_ms(CLOCK_REALTIME, 20), mono = in_ms(CLOCK_MONOTONIC, 20);
    printf("- semaphores\n");
    sem_init(&s, 0, 2);
    SAYS(0, sem_wait(&s));
    SETS(EINVAL, sem_timedwait(&s, &bad));
    SETS(EINVAL, sem_clockwait(&s, CLOCK_PROCESS_CPUTIME_ID, &soon));
    SAYS(0, sem_timedwait(&s, &past));
    SETS(EAGAIN, sem_trywait(&s));
    SETS(ETIMEDOUT, sem_timedwait(&s, &past));
    SETS(ETIMEDOUT, sem_timedwait(&s, &soon));
    SETS(ETIMEDOUT, sem_clockwait(&s, CLOCK_MONOTONIC, &mono));
    SETS(EINVAL, sem_timedwait(&s, &negative));
    struct sigaction act = {.sa_handler = nothing};
    sigaction(SIGUSR1, &act, NULL);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    timer_settime(timer, 0, &(struct itimerspec){.it_value = {0, 20000000}}, NULL);
    SETS(EINTR, sem_wait(&s));
    timer_delete(timer);
}

static void *sleeps(void *arg)
{
    usleep(*(int *)arg * 1000);
    return (void *)5;
}
static int sleeps11(void *arg)
{
    usleep(*(int *)arg * 1000);
    return 7;
}

static void *at_barrier(void *arg)
{
    return (void *)(intptr_t)pthread_barrier_wait(arg);
}

static void the_rest(void)
{
    pthread_spinlock_t spin;
    pthread_barrier_t barrier;
    pthread_t t;
    void *value;
    int ms = 50;
    printf("- spin locks, barriers, joins\n");
    pthread_spin_init(&spin, 0);
    SAYS(0, pthread_spin_lock(&spin));
    SAYS(EBUSY, pthread_spin_trylock(&spin));
    SAYS(0, pthread_spin_unlock(&spin));
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&t, NULL, at_barrier, &barrier);
    intptr_t mine = pthread_barrier_wait(&barrier);
    pthread_join(t, &value);
    SAYS(PTHREAD_BARRIER_SERIAL_THREAD, (int)(mine + (intptr_t)value));

    SAYS(EDEADLK, pthread_join(pthread_self(), NULL));
    pthread_create(&t, NULL, sleeps, &ms);
    struct timespec soon = in_ms(CLOCK_REALTIME, 10), mono = in_ms(CLOCK_MONOTONIC, 10);
    SAYS(EBUSY, pthread_tryjoin_np(t, &value));
    SAYS(ETIMEDOUT, pthread_timedjoin_np(t, &value, &soon));
    SAYS(ETIMEDOUT, pthread_clockjoin_np(t, &value, CLOCK_MONOTONIC, &mono));
    SAYS(EINVAL, pthread_clockjoin_np(t, &value, CLOCK_PROCESS_CPUTIME_ID, &soon));
    SAYS(0, pthread_join(t, &value));
    SAYS(5, (int)(intptr_t)value);
    pthread_create(&t, NULL, sleeps, &ms);
    usleep(100000);
    SAYS(0, pthread_join(t, NULL)); /* it has ended */
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
    pthread_create(&t, &a, sleeps, &ms);
    SAYS(EINVAL, pthread_join(t, NULL));
}

static int others_mtx(void *arg)
{
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    SAYS(thrd_busy, mtx_trylock(arg));
    SAYS(thrd_timedout, mtx_timedlock(arg, &soon));
    SAYS(thrd_error, mtx_timedlock(arg, &bad));
    return 3;
}

static void c11(void)
{
    mtx_t m;
    cnd_t c;
    thrd_t t;
    int value = 0, ms = 20;
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    printf("- C11\n");
    mtx_init(&m, mtx_timed | mtx_recursive);
    cnd_init(&c);
    SAYS(thrd_success, mtx_lock(&m));
    SAYS(thrd_success, mtx_lock(&m));
    SAYS(thrd_success, mtx_unlock(&m));
    thrd_create(&t, others_mtx, &m);
    SAYS(thrd_success, thrd_join(t, &value));
    SAYS(3, value);
    SAYS(thrd_timedout, cnd_timedwait(&c, &m, &soon));
    SAYS(thrd_success, mtx_unlock(&m));
    thrd_create(&t, sleeps11, &ms);
    SAYS(thrd_success, thrd_join(t, &value));
    SAYS(7, value);
    mtx_destroy(&m);
    cnd_destroy(&c);
}

/* ---- cancellation -------------------------------------------------------------------------------------------------
 */

static struct {
    pthread_mutex_t m;
    pthread_cond_t c;
    sem_t s, free;
    int cleaned;
} cancelled = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {{0}}, {{0}}, 0};

static void clean(void *arg)
{
    /* After a condition the mutex must be ours. */
    cancelled.cleaned = arg ? pthread_mutex_unlock(arg) == 0 : 1;
}

static void *in_cond_wait(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&cancelled.m);
    pthread_cleanup_push(clean, &cancelled.m);
    for (;;)
        pthread_cond_wait(&cancelled.c, &cancelled.m);
    pthread_cleanup_pop(0);
    return NULL;
}
static void *in_sem_wait(void *arg)
{
    pthread_cleanup_push(clean, NULL);
    for (;;)
        sem_wait(arg);
    pthread_cleanup_pop(0);
    return NULL;
}
static void *in_free_sem_wait(void *arg)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cancel(pthread_self());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    pthread_cleanup_push(clean, NULL);
    sem_wait(arg);
    pthread_cleanup_pop(0);
    return NULL;
}
static void *in_join(void *arg)
{
    pthread_t t;
    pthread_create(&t, NULL, sleeps, arg);
    pthread_cleanup_push(clean, NULL);
    pthread_join(t, NULL);
    pthread_cleanup_pop(0);
    return NULL;
}

static int after_cancelling(void *(*fn)(void *), void *arg)
{
    pthread_t t;
    void *value = NULL;
    cancelled.cleaned = 0;
    pthread_create(&t, NULL, fn, arg);
    usleep(30000);
    pthread_cancel(t);
    pthread_join(t, &value);
    return (value == PTHREAD_CANCELED) + 2 * cancelled.cleaned;
}

static void cancellation(void)
{
    int ms = 300, left = 0;
    printf("- cancellation\n");
    sem_init(&cancelled.free, 0, 3);
    sem_init(&cancelled.s, 0, 0);
    SAYS(3, after_cancelling(in_cond_wait, NULL));
    SAYS(0, pthread_mutex_trylock(&cancelled.m));
    SAYS(3, after_cancelling(in_sem_wait, &cancelled.s));
    SAYS(3, after_cancelling(in_free_sem_wait, &cancelled.free));
    sem_getvalue(&cancelled.free, &left);
    SAYS(3, left);
    SAYS(3, after_cancelling(in_join, &ms));
}

static void *forever(void *arg)
{
    for (;;)
        pause();
    return arg;
}

int main(void)
{
    pthread_t t;
    sigset_t set;
    sigfillset(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_create(&t, NULL, forever, NULL); /* from now on there are threads */
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);

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
    conditions();
    semaphores();
    the_rest();
    c11();
    cancellation();
    return broken;
}
