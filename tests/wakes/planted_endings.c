// SPDX-License-Identifier: MIT
// Programs in which threads wait for a thread or a process that has ended. Each is a mode, named by the argument;
// without one the names are listed. The parts of a program that are not stuck go on where that is the usual case.
#include "wakes.h"

#include <linux/futex.h>
#include <sys/syscall.h>

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;
static pthread_t threads[4];
static int n_items;

// ---- holders that ended

static void *lock_and_end(void *unused)
{
    pthread_mutex_lock(&locks[0]);
    return unused;
}

static void ended_owner(void)
{
    pthread_join(start_thread(lock_and_end, NULL), NULL);
    threads[0] = start_thread(lock_and_end, NULL);
    say_ready();
    pthread_join(threads[0], NULL);
}

static void *lock_and_sleep(void *unused)
{
    pthread_mutex_lock(&locks[0]);
    atomic_fetch_add(&n_there, 1);
    sleep(1000);
    return unused;
}

static void cancelled_owner(void)
{
    pthread_t owner = start_thread(lock_and_sleep, NULL);

    arrive_and_await(2);
    pthread_cancel(owner);
    pthread_join(owner, NULL);
    start_thread(lock_and_end, NULL);
    say_ready();
    tick_forever();
}

static void *write_and_end(void *unused)
{
    pthread_rwlock_wrlock(&rwlock);
    return unused;
}

static void *read_and_end(void *unused)
{
    pthread_rwlock_rdlock(&rwlock);
    return unused;
}

static void ended_writer(void)
{
    pthread_join(start_thread(write_and_end, NULL), NULL);
    start_thread(read_and_end, NULL);
    say_ready();
    tick_forever();
}

static void ended_reader(void)
{
    pthread_join(start_thread(read_and_end, NULL), NULL);
    threads[0] = start_thread(write_and_end, NULL);
    say_ready();
    pthread_join(threads[0], NULL);
}

static void dead_process(void)
{
    pthread_mutex_t *shared = shared_memory(sizeof(*shared));
    pid_t child;

    init_mutex(shared, PTHREAD_MUTEX_NORMAL, 1, 0);
    child = fork();
    if (child == 0) {
        pthread_mutex_lock(shared);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    say_ready();
    pthread_mutex_lock(shared);
}

static void forked_with_lock(void)
{
    start_thread(lock_and_sleep, NULL);
    arrive_and_await(2);
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pthread_mutex_lock(&locks[0]);
        _exit(0);
    }
    say_ready();
    wait(NULL);
}

static void *take_semaphore(void *unused)
{
    sem_wait(&semaphore);
    return unused;
}

static void ended_taker(void)
{
    sem_init(&semaphore, 0, 1);
    for (int i = 0; i < 3; i++) {
        sem_wait(&semaphore);
        sem_post(&semaphore);
    }
    pthread_join(start_thread(take_semaphore, NULL), NULL);
    threads[0] = start_thread(take_semaphore, NULL);
    say_ready();
    pthread_join(threads[0], NULL);
}

// ---- signallers that ended

static void *produce(void *unused)
{
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&locks[0]);
        n_items++;
        pthread_cond_signal(&cond);
        pthread_mutex_unlock(&locks[0]);
        usleep(2000);
    }
    return unused;
}

static void *consume(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&locks[0]);
        while (n_items == 0)
            pthread_cond_wait(&cond, &locks[0]);
        n_items--;
        pthread_mutex_unlock(&locks[0]);
    }
    return unused;
}

static void ended_producer(void)
{
    threads[0] = start_thread(consume, NULL);
    pthread_join(start_thread(produce, NULL), NULL);
    say_ready();
    pthread_join(threads[0], NULL);
}

static void *tick_beside(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&locks[1]);
        pthread_mutex_unlock(&locks[1]);
        usleep(10000);
    }
    return unused;
}

static void ended_producer_among_others(void)
{
    threads[0] = start_thread(consume, NULL);
    start_thread(tick_beside, NULL);
    start_thread(tick_beside, NULL);
    pthread_join(start_thread(produce, NULL), NULL);
    say_ready();
    pthread_join(threads[0], NULL);
}

static void *signal_once(void *unused)
{
    pthread_mutex_lock(&locks[0]);
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&locks[0]);
    return unused;
}

static void *wait_once(void *unused)
{
    pthread_mutex_lock(&locks[0]);
    atomic_fetch_add(&n_there, 1);
    pthread_cond_wait(&cond, &locks[0]);
    pthread_mutex_unlock(&locks[0]);
    return unused;
}

static void lost_signal(void)
{
    pthread_join(start_thread(signal_once, NULL), NULL);
    threads[0] = start_thread(wait_once, NULL);
    say_ready();
    pthread_join(threads[0], NULL);
}

static void one_signal_for_many(void)
{
    for (int i = 0; i < 3; i++)
        threads[i] = start_thread(wait_once, NULL);
    arrive_and_await(4);
    pthread_join(start_thread(signal_once, NULL), NULL);
    say_ready();
    join_all(threads, 3);
}

static void *meet_others(void *argument)
{
    if (argument)
        pthread_barrier_wait(&barrier);
    return NULL;
}

static void short_barrier(void)
{
    pthread_barrier_init(&barrier, NULL, 4);
    for (long i = 0; i < 4; i++)
        threads[i] = start_thread(meet_others, (void *)i);
    say_ready();
    join_all(threads, 4);
}

static void *post_twenty(void *unused)
{
    for (int i = 0; i < 20; i++) {
        sem_post(&semaphore);
        usleep(2000);
    }
    return unused;
}

static void *take_semaphore_forever(void *unused)
{
    for (;;)
        sem_wait(&semaphore);
    return unused;
}

static void ended_poster(void)
{
    sem_init(&semaphore, 0, 0);
    threads[0] = start_thread(take_semaphore_forever, NULL);
    pthread_join(start_thread(post_twenty, NULL), NULL);
    say_ready();
    pthread_join(threads[0], NULL);
}

// As libstdc++ waits for futures and semaphores: for private memory, without the flag that says so.
static int word;

static void *wait_for_word(void *unused)
{
    while (syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0) == 0)
        ;
    return unused;
}

static void *wake_word(void *unused)
{
    syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0);
    return unused;
}

static void futex_without_flag(void)
{
    threads[0] = start_thread(wait_for_word, NULL);
    pthread_join(start_thread(wake_word, NULL), NULL);
    say_ready();
    pthread_join(threads[0], NULL);
}

#define MODE(name)  \
    {               \
#name, name \
    }
static const struct mode modes[] = {
    MODE(ended_owner),  MODE(cancelled_owner),     MODE(ended_writer),
    MODE(ended_reader), MODE(dead_process),        MODE(forked_with_lock),
    MODE(ended_taker),  MODE(ended_producer),      MODE(ended_producer_among_others),
    MODE(lost_signal),  MODE(one_signal_for_many), MODE(short_barrier),
    MODE(ended_poster), MODE(futex_without_flag),
};

int main(int argc, char **argv)
{
    return run_mode(modes, sizeof(modes) / sizeof(modes[0]), argc, argv);
}
