/* SPDX-License-Identifier: MIT */
/*
 * victim_alarm.c - its threads wait until the standard input ends. Each case sets up its threads and then adds one that
 * waits for a mutex that main holds (not in the case futexes):
 *
 *     victim_alarm circle      three threads, each for the mutex of the next one
 *     victim_alarm inherits    the same, of mutexes that inherit priority
 *     victim_alarm robust      the same, of robust mutexes
 *     victim_alarm shared      a thread waits for a mutex that other processes may hold, too
 *     victim_alarm shared_rwlock   the same, to read
 *     victim_alarm foreign     a thread waits for a mutex that a child process holds
 *     victim_alarm foreign_robust  the same, of a robust mutex
 *     victim_alarm reader_waits    a thread waits to write; the reader waits for a mutex of this thread
 *     victim_alarm two_rwlocks     two threads read a lock each, and wait to write the other one's
 *     victim_alarm reader_waits_tried, two_rwlocks_tried   the same two, after pthread_rwlock_tryrdlock
 *     victim_alarm left        as circle, and main ends by pthread_exit
 *     victim_alarm behind      a thread locks the mutex that it holds, and another one waits for it
 *     victim_alarm joins       a thread waits for a mutex of a thread that waits for its end
 *     victim_alarm joins_only  three threads wait for each other's end
 *     victim_alarm futexes     two threads wait for a lock of another library than libc
 *     victim_alarm itself      a thread locks the mutex that it holds
 *     victim_alarm readers     a thread waits to write while two threads read
 *     victim_alarm writer      a thread waits to read while another one writes
 *     victim_alarm chain       a thread waits for a thread that waits for a thread that sleeps
 *     victim_alarm ended       a thread waits for a mutex whose holder ended without unlocking it
 *     victim_alarm ended_reader    a thread waits to write; a reader ended without unlocking it
 *     victim_alarm late_reader     the same, but that reader unlocked it after its function, and another one reads
 *     victim_alarm parent      a thread of a child process waits for a mutex that a thread of this one held at the fork
 *     victim_alarm pipe_and_mutex  a thread writes to a full pipe with the mutex that the pipe's reader waits for
 *     victim_alarm pipe_and_join   a thread waits for the end of one that writes to a full pipe
 *     victim_alarm pipe_moves  as pipe_and_mutex, but a third thread reads from time to time
 *     victim_alarm idle        threads wait for a condition, a semaphore, a barrier and each other's end
 *     victim_alarm abandoned   two threads left their waits: one by longjmp, one was cancelled
 *     victim_alarm released    main unlocks the mutex some times while the thread waits, and locks it again
 */
#include "../../support/locks.h"

#include <linux/futex.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER,
                       locks[3] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t ready;
static sem_t never, had_it, main_has_it;
static sigjmp_buf back;

static void stays(void)
{
    for (;;)
        pause();
}

static void init_locks(int protocol, int shared, int robust)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    pthread_mutexattr_setpshared(&attributes, shared);
    pthread_mutexattr_setrobust(&attributes, robust);
    for (int i = 0; i < 3; i++)
        pthread_mutex_init(&locks[i], &attributes);
}

/* Several threads run this at once: each locks its mutex, and then the next one's. */
__attribute__((noinline)) void *locks_two(void *arg)
{
    long i = (long)arg;
    pthread_mutex_lock(&locks[i]);
    pthread_barrier_wait(&ready);
    pthread_mutex_lock(&locks[(i + 1) % 3]);
    return NULL;
}

__attribute__((noinline)) void *locks_again(void *unused)
{
    pthread_mutex_lock(&locks[0]);
    pthread_barrier_wait(&ready);
    pthread_mutex_lock(&locks[0]);
    return unused;
}

__attribute__((noinline)) void *reads(void *unused)
{
    pthread_rwlock_rdlock(&rwlock);
    pthread_barrier_wait(&ready);
    stays();
    return unused;
}

__attribute__((noinline)) void *writes(void *unused)
{
    pthread_rwlock_wrlock(&rwlock);
    pthread_barrier_wait(&ready);
    stays();
    return unused;
}

__attribute__((noinline)) void *wants_to_write(void *unused)
{
    pthread_barrier_wait(&ready);
    pthread_rwlock_wrlock(&rwlock);
    return unused;
}

__attribute__((noinline)) void *wants_to_read(void *unused)
{
    pthread_barrier_wait(&ready);
    pthread_rwlock_rdlock(&rwlock);
    return unused;
}

__attribute__((noinline)) void *holds_and_sleeps(void *unused)
{
    pthread_mutex_lock(&locks[0]);
    pthread_barrier_wait(&ready);
    stays();
    return unused;
}

__attribute__((noinline)) void *holds_and_waits(void *unused)
{
    pthread_mutex_lock(&locks[1]);
    pthread_barrier_wait(&ready);
    pthread_mutex_lock(&locks[0]);
    return unused;
}

__attribute__((noinline)) void *waits_for_both(void *unused)
{
    pthread_barrier_wait(&ready);
    pthread_mutex_lock(&locks[1]);
    return unused;
}

static void *ends_with_lock(void *unused)
{
    pthread_mutex_lock(&locks[0]);
    return unused;
}

__attribute__((noinline)) void *waits_for_ended(void *unused)
{
    pthread_barrier_wait(&ready);
    pthread_mutex_lock(&locks[0]);
    return unused;
}

static pthread_key_t late;

static void unlocks_late(void *unused)
{
    (void)unused;
    pthread_rwlock_unlock(&rwlock);
}

static void *ends_as_reader(void *is_late)
{
    pthread_rwlock_rdlock(&rwlock);
    pthread_setspecific(late, is_late);
    return NULL;
}

static int full[2];

__attribute__((noinline)) void *writes_with_lock(void *unused)
{
    pthread_mutex_lock(&locks[0]);
    pthread_barrier_wait(&ready);
    while (write(full[1], "", 1) == 1)
        ;
    return unused;
}

__attribute__((noinline)) void *joins_a_writer(void *unused)
{
    pthread_t thread;
    pthread_create(&thread, NULL, writes_with_lock, NULL);
    pthread_join(thread, NULL);
    return unused;
}

static void *reads_sometimes(void *unused)
{
    char page[4096];
    pthread_barrier_wait(&ready);
    while (usleep(20000) == 0 && read(full[0], page, sizeof page) > 0)
        ;
    return unused;
}

static void *waits_for_condition(void *unused)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    pthread_barrier_wait(&ready);
    pthread_mutex_lock(&mutex);
    for (;;)
        pthread_cond_wait(&condition, &mutex);
    return unused;
}

static void *waits_for_semaphore(void *unused)
{
    pthread_barrier_wait(&ready);
    sem_wait(&never);
    return unused;
}

static void *waits_for_barrier(void *unused)
{
    static pthread_barrier_t two;
    pthread_barrier_init(&two, NULL, 2);
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&two);
    return unused;
}

static void *joins(void *unused)
{
    pthread_t thread;
    pthread_create(&thread, NULL, waits_for_semaphore, NULL);
    pthread_join(thread, NULL);
    return unused;
}

static void jump(int sig)
{
    (void)sig;
    siglongjmp(back, 1);
}

static void *leaves_its_wait(void *unused)
{
    if (sigsetjmp(back, 1) == 0) {
        says_it_takes();
        pthread_mutex_lock(&held);
    }
    pthread_barrier_wait(&ready);
    stays();
    return unused;
}

static void *is_cancelled(void *unused)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    says_it_takes();
    pthread_mutex_lock(&held);
    return unused;
}

__attribute__((noinline)) void *waits_for_main(void *unused)
{
    for (;;) {
        says_it_takes();
        pthread_mutex_lock(&held);
        pthread_mutex_unlock(&held);
        sem_post(&had_it);
        sem_wait(&main_has_it);
    }
    return unused;
}

__attribute__((noinline)) void *waits_behind(void *unused)
{
    pthread_mutex_lock(&locks[0]);
    return unused;
}

__attribute__((noinline)) void *wants_to_lock(void *lock)
{
    pthread_mutex_lock(lock ? lock : &locks[0]);
    return lock;
}

static int (*lock_to_read)(pthread_rwlock_t *) = pthread_rwlock_rdlock;

__attribute__((noinline)) void *reads_and_locks(void *unused)
{
    lock_to_read(&rwlock);
    pthread_barrier_wait(&ready);
    pthread_mutex_lock(&locks[0]);
    return unused;
}

__attribute__((noinline)) void *writes_behind_a_reader(void *unused)
{
    pthread_mutex_lock(&locks[0]);
    pthread_barrier_wait(&ready);
    pthread_rwlock_wrlock(&rwlock);
    return unused;
}

/* Two threads run this at once. */
__attribute__((noinline)) void *reads_and_writes(void *arg)
{
    static pthread_rwlock_t two[2] = {PTHREAD_RWLOCK_INITIALIZER, PTHREAD_RWLOCK_INITIALIZER};
    lock_to_read(&two[(long)arg]);
    pthread_barrier_wait(&ready);
    pthread_rwlock_wrlock(&two[!arg]);
    return NULL;
}

__attribute__((noinline)) void *waits_in_other_lock(void *arg)
{
    static int words[2];
    pthread_barrier_wait(&ready);
    for (;;)
        syscall(SYS_futex, &words[(long)arg], FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return NULL;
}

static pthread_t joined[3];

__attribute__((noinline)) void *joins_with_lock(void *unused)
{
    pthread_mutex_lock(&locks[0]);
    pthread_barrier_wait(&ready);
    pthread_join(joined[0], NULL);
    return unused;
}

/* Three threads run this at once: each waits for the end of the next one. */
__attribute__((noinline)) void *joins_next(void *arg)
{
    pthread_barrier_wait(&ready);
    pthread_join(joined[((long)arg + 1) % 3], NULL);
    return NULL;
}

static pthread_t start(void *(*run)(void *), long i)
{
    pthread_t thread;
    pthread_create(&thread, NULL, run, (void *)i);
    return thread;
}

static void start_all(unsigned n, void *(*const runs[])(void *))
{
    pthread_barrier_init(&ready, NULL, n + 1);
    for (unsigned i = 0; i < n; i++)
        joined[i % 3] = start(runs[i], i);
    pthread_barrier_wait(&ready);
}

/* The child, which lives as long as this process, locks a mutex in memory of both. */
static void wait_for_child(int robust)
{
    pthread_mutex_t *mutex = mmap(NULL, sizeof *mutex, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attributes;
    int locked[2];
    char c;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, robust);
    pthread_mutex_init(mutex, &attributes);
    if (pipe(locked))
        abort();
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pthread_mutex_lock(mutex);
        if (write(locked[1], "", 1) == 1)
            stays();
    }
    if (read(locked[0], &c, 1) == 1)
        pthread_create(&(pthread_t){0}, NULL, wants_to_lock, mutex);
}

/* The child has a copy of the mutex, and not the thread that holds it. */
static void fork_with_lock(void)
{
    start_all(1, (void *(*[])(void *)){holds_and_sleeps});
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        start(wants_to_lock, 0);
        stays();
    }
}

static void abandon(void)
{
    pthread_barrier_init(&ready, NULL, 2);
    signal(SIGUSR1, jump);
    pthread_t first = start(leaves_its_wait, 0);
    until_it_sleeps();
    pthread_kill(first, SIGUSR1);
    pthread_barrier_wait(&ready);
    pthread_t second = start(is_cancelled, 0);
    until_it_sleeps();
    pthread_cancel(second);
    pthread_join(second, NULL);
}

__attribute__((noinline)) void releases_while_one_waits(void)
{
    for (int i = 0; i < 5; i++) {
        until_it_sleeps();
        pthread_mutex_unlock(&held);
        sem_wait(&had_it);
        pthread_mutex_lock(&held); // free: main never waits for it
        sem_post(&main_has_it);
    }
}

static void *ends_with_stdin(void *unused)
{
    char c;
    while (read(0, &c, 1) > 0)
        ;
    _exit(0);
    return unused;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    pthread_mutex_lock(&held);
    if (!strcmp(how, "circle") || !strcmp(how, "left"))
        start_all(3, (void *(*[])(void *)){locks_two, locks_two, locks_two});
    else if (!strcmp(how, "inherits")) {
        init_locks(PTHREAD_PRIO_INHERIT, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED);
        start_all(3, (void *(*[])(void *)){locks_two, locks_two, locks_two});
    } else if (!strcmp(how, "shared")) {
        init_locks(PTHREAD_PRIO_NONE, PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_STALLED);
        start_all(1, (void *(*[])(void *)){holds_and_sleeps});
        start(wants_to_lock, 0);
    } else if (!strcmp(how, "shared_rwlock")) {
        pthread_rwlockattr_t attributes;
        pthread_rwlockattr_init(&attributes);
        pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        pthread_rwlock_init(&rwlock, &attributes);
        start_all(2, (void *(*[])(void *)){writes, wants_to_read});
    } else if (!strcmp(how, "robust")) {
        init_locks(PTHREAD_PRIO_NONE, PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_ROBUST);
        start_all(3, (void *(*[])(void *)){locks_two, locks_two, locks_two});
    } else if (!strncmp(how, "foreign", 7))
        wait_for_child(!strcmp(how, "foreign") ? PTHREAD_MUTEX_STALLED : PTHREAD_MUTEX_ROBUST);
    else if (!strcmp(how, "reader_waits_tried") || !strcmp(how, "two_rwlocks_tried"))
        lock_to_read = pthread_rwlock_tryrdlock;
    if (!strncmp(how, "reader_waits", 12))
        start_all(2, (void *(*[])(void *)){reads_and_locks, writes_behind_a_reader});
    else if (!strncmp(how, "two_rwlocks", 11))
        start_all(2, (void *(*[])(void *)){reads_and_writes, reads_and_writes});
    else if (!strcmp(how, "itself"))
        start_all(1, (void *(*[])(void *)){locks_again});
    else if (!strcmp(how, "joins"))
        start_all(2, (void *(*[])(void *)){waits_for_ended, joins_with_lock});
    else if (!strcmp(how, "futexes"))
        start_all(2, (void *(*[])(void *)){waits_in_other_lock, waits_in_other_lock});
    else if (!strcmp(how, "joins_only"))
        start_all(3, (void *(*[])(void *)){joins_next, joins_next, joins_next});
    else if (!strcmp(how, "behind")) {
        start_all(1, (void *(*[])(void *)){locks_again});
        start(waits_behind, 0);
    } else if (!strcmp(how, "readers"))
        start_all(3, (void *(*[])(void *)){reads, reads, wants_to_write});
    else if (!strcmp(how, "writer"))
        start_all(2, (void *(*[])(void *)){writes, wants_to_read});
    else if (!strcmp(how, "chain"))
        start_all(3, (void *(*[])(void *)){holds_and_sleeps, holds_and_waits, waits_for_both});
    else if (!strcmp(how, "idle"))
        start_all(5, (void *(*[])(void *)){waits_for_condition, waits_for_semaphore, waits_for_barrier, joins,
                                           waits_for_condition});
    else if (!strcmp(how, "abandoned"))
        abandon();
    else if (!strcmp(how, "ended_reader") || !strcmp(how, "late_reader")) {
        bool is_late = !strcmp(how, "late_reader");
        pthread_key_create(&late, unlocks_late);
        pthread_join(start(ends_as_reader, is_late), NULL);
        start_all(is_late ? 2 : 1, (void *(*[])(void *)){is_late ? reads : wants_to_write, wants_to_write});
    } else if (!strcmp(how, "parent"))
        fork_with_lock();
    else if (!strncmp(how, "pipe", 4)) {
        if (pipe(full))
            abort();
        if (!strcmp(how, "pipe_and_join"))
            start_all(1, (void *(*[])(void *)){joins_a_writer}); /* its writer comes to the barrier */
        else if (!strcmp(how, "pipe_moves"))
            start_all(3, (void *(*[])(void *)){writes_with_lock, waits_for_ended, reads_sometimes});
        else
            start_all(2, (void *(*[])(void *)){writes_with_lock, waits_for_ended});
    } else if (!strcmp(how, "ended")) {
        pthread_join(start(ends_with_lock, 0), NULL);
        start_all(1, (void *(*[])(void *)){waits_for_ended});
    }
    if (strcmp(how, "futexes"))
        start(waits_for_main, 0);
    if (!strcmp(how, "released"))
        releases_while_one_waits();
    if (!strcmp(how, "left")) {
        start(ends_with_stdin, 0);
        pthread_exit(NULL);
    }
    ends_with_stdin(NULL);
}
