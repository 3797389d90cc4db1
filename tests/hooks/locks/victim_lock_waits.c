/* SPDX-License-Identifier: MIT */
/* victim_lock_waits.c - prints the return codes of conditions, semaphores, spin locks, barriers, joins and C11, and
 * cancels threads in them. Exit 1: one is not as POSIX says. */
#include "../../support/lock_results.h"

/* ---- conditions, semaphores, the rest --------------------------------------------------------------------------- */

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
    SAYS(0, pthread_mutex_unlock(m)); /* each wait had locked it again */
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
    timer_settime(timer, 0, &(struct itimerspec){{0, 20000000}, {0, 20000000}}, NULL); /* a repeating timer */
    SETS(EINTR, sem_wait(&s));
    timer_delete(timer);
}

static sem_t may_end;
static void *sleeps(void *arg)
{
    sem_wait(&may_end);
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
    sem_init(&may_end, 0, 0);
    pthread_create(&t, NULL, sleeps, &ms);
    struct timespec soon = in_ms(CLOCK_REALTIME, 10), mono = in_ms(CLOCK_MONOTONIC, 10);
    SAYS(EBUSY, pthread_tryjoin_np(t, &value));
    SAYS(ETIMEDOUT, pthread_timedjoin_np(t, &value, &soon));
    SAYS(ETIMEDOUT, pthread_clockjoin_np(t, &value, CLOCK_MONOTONIC, &mono));
#if __GLIBC_PREREQ(2, 32) /* before, it waited */
    SAYS(EINVAL, pthread_clockjoin_np(t, &value, CLOCK_PROCESS_CPUTIME_ID, &soon));
#endif
    sem_post(&may_end);
    SAYS(0, pthread_join(t, &value));
    SAYS(5, (int)(intptr_t)value);
    sem_post(&may_end);
    pthread_create(&t, NULL, sleeps, &ms);
    usleep(100000);
    SAYS(0, pthread_join(t, NULL)); /* it has ended */
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
    pthread_create(&t, &a, sleeps, &ms);
    SAYS(EINVAL, pthread_join(t, NULL));
    sem_post(&may_end);
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

/* ---- cancellation ----------------------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t m;
    pthread_cond_t c;
    sem_t s, free;
    int cleaned;
} cancelled = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {{0}}, {{0}}, 0};

static void clean(void *arg)
{
    /* After a condition the thread must hold the mutex. */
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
    pthread_create(&t, NULL, forever, NULL);
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
    int left = 0;
    printf("- cancellation\n");
    sem_init(&cancelled.free, 0, 3);
    sem_init(&cancelled.s, 0, 0);
    SAYS(3, after_cancelling(in_cond_wait, NULL));
    SAYS(0, pthread_mutex_trylock(&cancelled.m));
    SAYS(3, after_cancelling(in_sem_wait, &cancelled.s));
    SAYS(3, after_cancelling(in_free_sem_wait, &cancelled.free));
    sem_getvalue(&cancelled.free, &left);
    SAYS(3, left);
    SAYS(3, after_cancelling(in_join, NULL));
}

int main(void)
{
    have_threads();
    conditions();
    semaphores();
    the_rest();
    c11();
    cancellation();
    return broken;
}
