/* SPDX-License-Identifier: MIT */
/* victim_futexes.c - a program with its own locks and events, and with unusual calls, all by syscall(SYS_futex). */
#include "../../support/locks.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef _Atomic uint32_t word;

static long futex(word *w, int op, uint32_t value, const struct timespec *timeout, word *other, uint32_t bits)
{
    return syscall(SYS_futex, w, op, value, timeout, other, bits);
}

static _Atomic long n_waited; /* calls of wait_on that slept until they were woken */

static void wait_on(word *w, uint32_t value)
{
    if (syscall(SYS_futex, w, FUTEX_WAIT_PRIVATE, value, NULL) == 0) /* four arguments of seven */
        n_waited++;
}

static void wake(word *w, int n)
{
    syscall(SYS_futex, w, FUTEX_WAKE_PRIVATE, n);
}

/* ---- a lock ------------------------------------------------------------------------------------------------------ */

static word the_lock;
static long n_turns;

__attribute__((noinline)) static void take(word *l)
{
    uint32_t free = 0;
    if (atomic_compare_exchange_strong(l, &free, 1))
        return;
    while (atomic_exchange(l, 2) != 0)
        wait_on(l, 2);
}

__attribute__((noinline)) static void give(word *l)
{
    if (atomic_exchange(l, 0) == 2)
        wake(l, 1);
}

__attribute__((noinline)) static void holds_long(void)
{
    take(&the_lock);
    usleep(2000);
    n_turns++;
    give(&the_lock);
}

__attribute__((noinline)) static void holds_short(void)
{
    take(&the_lock);
    n_turns++;
    give(&the_lock);
}

/* A machine with one processor may run the threads one after the other: they go on until one has waited. */
static void *takes_turns(void *number)
{
    for (int i = 0; i < 200 || !n_waited; i++) {
        if (number) {
            holds_short();
            usleep(100);
        } else {
            holds_long();
        }
    }
    return NULL;
}

/* A lock whose waiters time out, or are interrupted. */
static void on_signal(int sig)
{
    (void)sig;
}

__attribute__((noinline)) static void takes_in_pieces(word *l)
{
    struct timespec ms = {0, 1000000};
    uint32_t free = 0;
    if (atomic_compare_exchange_strong(l, &free, 1))
        return;
    while (atomic_exchange(l, 2) != 0)
        futex(l, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 2, &(struct timespec){1, 0}, NULL, 1),
            futex(l, FUTEX_WAIT_PRIVATE, 2, &ms, NULL, 0);
}

static void *piecewise(void *number)
{
    for (int i = 0; i < 100; i++) {
        takes_in_pieces(&the_lock);
        usleep(number ? 50 : 3000);
        n_turns++;
        give(&the_lock);
    }
    return NULL;
}

static pthread_t interrupted;
static void *is_interrupted(void *unused)
{
    for (int i = 0; i < 100 || !n_waited; i++) {
        take(&the_lock);
        n_turns++;
        give(&the_lock);
        usleep(100);
    }
    return unused;
}

static void interrupt(void)
{
    pthread_t holder;
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal}, NULL);
    pthread_create(&interrupted, NULL, is_interrupted, NULL);
    pthread_create(&holder, NULL, takes_turns, NULL);
    for (int i = 0; i < 100; i++) {
        usleep(1000);
        pthread_kill(interrupted, SIGUSR1);
    }
    pthread_join(interrupted, NULL);
    pthread_join(holder, NULL);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

enum { WORKERS = 4, WORK = 20 };
static word work, n_done;
static _Atomic int workers[WORKERS + 1];

/* Workers that are idle until there is work: no thread holds a lock. */
__attribute__((noinline)) static void *works(void *number)
{
    workers[(intptr_t)number] = (int)syscall(SYS_gettid);
    for (uint32_t seen = 0; seen < WORK;) {
        while (atomic_load(&work) == seen)
            wait_on(&work, seen);
        seen = atomic_load(&work);
        if (atomic_fetch_add(&n_done, 1) % 4 == 3)
            wake(&n_done, INT_MAX);
    }
    return number;
}

/* All workers sleep for 5 ms before there is work. */
static void *gives_work(void *unused)
{
    for (int i = 0; i < WORK; i++) {
        for (int k = 1; k <= WORKERS; k++)
            while (!sleeps(workers[k]))
                usleep(100);
        usleep(5000);
        atomic_fetch_add(&work, 1);
        wake(&work, INT_MAX);
    }
    return unused;
}

static void *first_gives(void *number)
{
    return number ? works(number) : gives_work(NULL);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static void say(const char *what, long result)
{
    printf("%s: %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
}

static void *wakes_later(void *w)
{
    while (syscall(SYS_futex, w, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0) == 0) /* until the thread waits */
        usleep(1000);
    return NULL;
}

static void *requeues_later(void *words)
{
    word *w = words;
    long n;
    while (!(n = futex(w, FUTEX_CMP_REQUEUE_PRIVATE, 0, (const struct timespec *)(intptr_t)INT_MAX, &w[1], 0)))
        usleep(1000);
    say("requeue", n);
    say("wake op", futex(&w[1], FUTEX_WAKE_OP_PRIVATE, 1, (const struct timespec *)(intptr_t)1, &w[2],
                         FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 0)));
    return NULL;
}

static void *holds_pi(void *w)
{
    uint32_t me = (uint32_t)syscall(SYS_gettid);
    atomic_store((word *)w, me);
    usleep(30000);
    bool alone = atomic_compare_exchange_strong((word *)w, &me, 0);
    return (void *)(alone ? 0 : futex(w, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
}

static void results(void)
{
    word w[3] = {0};
    struct timespec soon = {0, 1000000}, bad = {0, 2000000000};
    pthread_t t;
    void *result;
    say("another value", futex(w, FUTEX_WAIT_PRIVATE, 7, NULL, NULL, 0));
    say("timeout", futex(w, FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0));
    say("bitset timeout", futex(w, FUTEX_WAIT_BITSET_PRIVATE, 0, &soon, NULL, 1));
    say("bitset of 0", futex(w, FUTEX_WAIT_BITSET_PRIVATE, 0, &soon, NULL, 0));
    say("bad time", futex(w, FUTEX_WAIT_PRIVATE, 0, &bad, NULL, 0));
    say("bad address", futex((word *)8, FUTEX_WAIT, 0, &soon, NULL, 0));
    say("odd address", futex((word *)((char *)w + 1), FUTEX_WAIT_PRIVATE, 0, &soon, NULL, 0));
    say("no such operation", futex(w, 77, 0, NULL, NULL, 0));
    say("wake of none", futex(w, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
    say("wake bitset of none", futex(w, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, 3));
    say("requeue, another value", futex(w, FUTEX_CMP_REQUEUE_PRIVATE, 1, NULL, &w[1], 5));
    say("unlock pi of another", futex(w, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    say("lock pi of nobody", futex(w, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    say("lock pi twice", futex(w, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    say("unlock pi", futex(w, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    atomic_store(w, 0);
    pthread_create(&t, NULL, wakes_later, w);
    errno = 99;
    say("woken", futex(w, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
    printf("errno is left alone: %d\n", errno);
    pthread_join(t, NULL);
    atomic_store(w, 0);
    pthread_create(&t, NULL, requeues_later, w);
    long requeued = futex(w, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    int requeued_errno = errno;
    pthread_join(t, NULL); /* its lines come first */
    errno = requeued_errno;
    say("requeued and woken", requeued);
    printf("wake op added: %u\n", atomic_load(&w[2]));
    pthread_create(&t, NULL, holds_pi, w);
    while (!atomic_load(w))
        usleep(1000);
    say("lock pi", futex(w, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    pthread_join(t, &result);
    say("unlock pi by its holder", (long)result);
    say("unlock pi", futex(w, FUTEX_UNLOCK_PI_PRIVATE, 0, NULL, NULL, 0));
    struct {
        uint64_t value, address;
        uint32_t flags, reserved;
    } two[2] = {{.value = 0, .address = (uintptr_t)&w[1], .flags = 2 | 128}};
    atomic_store(&w[1], 0);
    two[1] = two[0];
    two[1].address = (uintptr_t)&w[2];
    atomic_store(&w[2], 0);
    pthread_create(&t, NULL, wakes_later, &w[2]);
    long woken = syscall(449 /* futex_waitv */, two, 2, 0, NULL, CLOCK_MONOTONIC);
    printf("one of two: %s\n", woken == 1 || (woken < 0 && errno == ENOSYS) ? "the second" : "another");
    pthread_join(t, NULL);
    /* fewer arguments than registers, and more than there are */
    printf("others: %d %ld\n", syscall(SYS_getpid) == getpid(), syscall(SYS_close, -1, 1, 2, 3, 4, 5));
    void *mapped = (void *)syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say("six arguments", mapped == MAP_FAILED ? -1 : 0);
}

/* ---- abandoned waits --------------------------------------------------------------------------------------------- */

static _Thread_local sigjmp_buf back;
static word event;
static void jumps(int sig)
{
    (void)sig;
    siglongjmp(back, 1);
}

static void *jumps_out(void *unused)
{
    if (!sigsetjmp(back, 1)) {
        says_it_takes();
        wait_on(&event, 0);
    }
    holds_short();
    return unused;
}

static void *is_cancelled(void *unused)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    says_it_takes();
    for (;;)
        wait_on(&the_lock, 1);
    return unused;
}

static void abandon(void)
{
    pthread_t jumping, cancelled;
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = jumps}, NULL);
    atomic_store(&the_lock, 1);
    pthread_create(&jumping, NULL, jumps_out, NULL);
    until_it_sleeps();
    pthread_create(&cancelled, NULL, is_cancelled, NULL);
    until_it_sleeps();
    usleep(50000); /* of both waits */
    pthread_kill(jumping, SIGUSR1);
    pthread_cancel(cancelled);
    pthread_join(cancelled, NULL);
    usleep(20000);
    give(&the_lock); /* the thread that jumps may wait for it now, the cancelled one does not */
    pthread_join(jumping, NULL);
    wake(&event, 1); /* pays for what a report has counted of the wait that was left by a jump */
    run_threads(3, takes_turns);
}

static void *forks(void *number)
{
    for (int i = 0; i < (number ? 100 : 10) || !n_waited; i++) {
        take(&the_lock);
        usleep(200);
        n_turns++;
        give(&the_lock);
        if (!number) {
            pid_t child = fork();
            if (child == 0) {
                word w = 0;
                futex(&w, FUTEX_WAIT_PRIVATE, 0, &(struct timespec){0, 1000000}, NULL, 0);
                wake(&w, 1);
                _exit(0);
            }
            waitpid(child, NULL, 0);
        }
        usleep(300);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (!strcmp(how, "lock"))
        run_threads(4, takes_turns);
    else if (!strcmp(how, "timeouts"))
        run_threads(3, piecewise);
    else if (!strcmp(how, "signals"))
        interrupt();
    else if (!strcmp(how, "events"))
        run_threads(WORKERS + 1, first_gives);
    else if (!strcmp(how, "results"))
        results();
    else if (!strcmp(how, "abandon"))
        abandon();
    else if (!strcmp(how, "forks"))
        run_threads(3, forks);
    if (strcmp(how, "results"))
        printf("%ld turns\n", n_turns);
    return 0;
}
