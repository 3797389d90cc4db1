/* SPDX-License-Identifier: MIT */
/*
 * futex_lock.c - a program with its own lock, made of a futex and the system call, as language runtimes have them. No
 * interposer sees such a lock. Six functions of hooks.h report it for the mutex and block profiles.
 *
 * The program links the core library only (pkg-config deltaprof). If no thread waits, a lock costs nothing more, and an
 * unlock one more load.
 *
 *     cc -pthread futex_lock.c $(pkg-config --cflags --libs deltaprof) && ./a.out profiles
 *     go tool pprof -top profiles/a.out.*.mutex.pb.gz      # threads that held the lock while others waited
 *     go tool pprof -top profiles/a.out.*.block.pb.gz      # threads that waited
 */
#include <deltaprof/hooks.h>

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- the lock: 0 unlocked, 1 locked, 2 locked and threads may wait ----------------------------------------------- */

typedef _Atomic uint32_t lock;

__attribute__((noinline)) static void lock_wait(lock *l, const struct deltaprof_site *site)
{
    struct deltaprof_wait wait;
    deltaprof_lock_wait_begin(&wait, l, DELTAPROF_LOCK_MUTEX, site); /* after the fast path has failed */
    while (atomic_exchange(l, 2) != 0)
        syscall(SYS_futex, l, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
    deltaprof_lock_wait_end(&wait, DELTAPROF_ACQUIRED, site);
}

__attribute__((noinline)) static void lock_take(lock *l)
{
    uint32_t free = 0;
    if (atomic_compare_exchange_strong(l, &free, 1))
        return;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER(); /* stacks begin at the caller of lock_take */
    lock_wait(l, &site);
}

__attribute__((noinline)) static void lock_release(lock *l)
{
    struct deltaprof_owed owed;
    bool owes = deltaprof_lock_may_have_waiters(l) && deltaprof_lock_unlock_begin(&owed, l); /* before the unlock */
    if (atomic_exchange(l, 0) == 2)
        syscall(SYS_futex, l, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    if (owes) {
        struct deltaprof_site site = DELTAPROF_SITE_CALLER();
        deltaprof_lock_unlock_end(&owed, &site); /* after the unlock, so that no thread waits for it */
    }
}

/* ---- a program that uses the lock ------------------------------------------------------------------------------- */

static lock pantry;
static long n_meals;

static void *eats_slowly(void *unused)
{
    for (int i = 0; i < 200; i++) {
        lock_take(&pantry);
        usleep(500);
        n_meals++;
        lock_release(&pantry);
    }
    return unused;
}

static void *snacks(void *unused)
{
    for (int i = 0; i < 200; i++) {
        lock_take(&pantry);
        n_meals++;
        lock_release(&pantry);
        usleep(100);
    }
    return unused;
}

int main(int argc, char **argv)
{
    char conf[4200];
    snprintf(conf, sizeof conf, "block_rate=1ns,interval=0,out=%s", argc > 1 ? argv[1] : "profiles");
    int err = deltaprof_start(conf);
    if (err) {
        fprintf(stderr, "cannot start the profiler: %s\n", strerror(-err));
        return 1;
    }
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, i == 0 ? eats_slowly : snacks, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    deltaprof_lock_destroyed(&pantry); /* before its memory is reused */
    err = deltaprof_emit();
    if (err)
        fprintf(stderr, "no profile: %s\n", strerror(-err));
    return err || n_meals != 800;
}
