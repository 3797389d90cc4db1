// SPDX-License-Identifier: MIT
// Programs in which threads wait for each other for ever. Each is a mode, named by the argument; without
// one the names are listed. The parts of a program that are not stuck go on where that is the usual case.
#include "wakes.h"

static pthread_mutex_t locks[5] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                   PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t recursive;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t semaphores[2];
static pthread_t threads[8];
static int pipes[2][2];
static int n_items, n_parties;
static atomic_bool listening;

static void make_pipes(void)
{
    if (pipe(pipes[0]) != 0 || pipe(pipes[1]) != 0)
        exit(2);
}

// ---- cycles over mutexes and rwlocks

static void *lock_neighbours(void *argument)
{
    long i = (long)argument;

    pthread_mutex_lock(&locks[i]);
    arrive_and_await(n_parties);
    pthread_mutex_lock(&locks[(i + 1) % n_parties]);
    return NULL;
}

static void two_mutexes(void)
{
    n_parties = 2;
    for (long i = 0; i < 2; i++)
        threads[i] = start_thread(lock_neighbours, (void *)i);
    say_ready();
    join_all(threads, 2);
}

static void philosophers(void)
{
    n_parties = 5;
    for (long i = 0; i < 5; i++)
        start_thread(lock_neighbours, (void *)i);
    say_ready();
    tick_forever();
}

static void *lock_twice(void *unused)
{
    pthread_mutex_lock(&locks[0]);
    pthread_mutex_lock(&locks[0]);
    return unused;
}

static void self_mutex(void)
{
    start_thread(lock_twice, NULL);
    say_ready();
    tick_forever();
}

static void *read_then_lock(void *unused)
{
    pthread_rwlock_rdlock(&rwlock);
    arrive_and_await(2);
    pthread_mutex_lock(&locks[0]);
    return unused;
}

static void *lock_then_write(void *unused)
{
    pthread_mutex_lock(&locks[0]);
    arrive_and_await(2);
    pthread_rwlock_wrlock(&rwlock);
    return unused;
}

static void mutex_and_rwlock(void)
{
    start_thread(read_then_lock, NULL);
    start_thread(lock_then_write, NULL);
    say_ready();
    tick_forever();
}

static void *read_then_write(void *unused)
{
    pthread_rwlock_rdlock(&rwlock);
    arrive_and_await(2);
    pthread_rwlock_wrlock(&rwlock);
    return unused;
}

static void upgrade_of_two_readers(void)
{
    threads[0] = start_thread(read_then_write, NULL);
    threads[1] = start_thread(read_then_write, NULL);
    say_ready();
    join_all(threads, 2);
}

// ---- cycles with joins, conditions and semaphores

static void *lock_first(void *unused)
{
    pthread_mutex_lock(&locks[0]);
    return unused;
}

static void join_under_lock(void)
{
    pthread_mutex_lock(&locks[0]);
    threads[0] = start_thread(lock_first, NULL);
    say_ready();
    pthread_join(threads[0], NULL);
}

static void *join_next(void *argument)
{
    arrive_and_await(4);
    pthread_join(threads[((long)argument + 1) % 3], NULL);
    return NULL;
}

static void join_ring(void)
{
    for (long i = 0; i < 3; i++)
        threads[i] = start_thread(join_next, (void *)i);
    arrive_and_await(4);
    say_ready();
    tick_forever();
}

static void take_item(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    while (n_items == 0) {
        atomic_store(&listening, true);
        pthread_cond_wait(&cond, mutex);
    }
    n_items--;
    pthread_mutex_unlock(mutex);
}

static void put_item(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    n_items++;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(mutex);
}

static void await_listener(void)
{
    while (!atomic_exchange(&listening, false))
        usleep(1000);
}

static void *take_one_then_one_under_lock(void *unused)
{
    take_item(&locks[1]);
    pthread_mutex_lock(&locks[0]);
    take_item(&locks[1]);
    pthread_mutex_unlock(&locks[0]);
    return unused;
}

static void *put_under_lock(void *unused)
{
    for (int i = 0; i < 2; i++) {
        await_listener();
        pthread_mutex_lock(&locks[0]);
        put_item(&locks[1]);
        pthread_mutex_unlock(&locks[0]);
    }
    return unused;
}

static void wait_under_lock(void)
{
    threads[0] = start_thread(take_one_then_one_under_lock, NULL);
    threads[1] = start_thread(put_under_lock, NULL);
    say_ready();
    join_all(threads, 2);
}

static void *wait_with_two_levels(void *unused)
{
    pthread_mutex_lock(&recursive);
    take_item(&recursive);
    pthread_mutex_unlock(&recursive);
    return unused;
}

static void *put_recursive(void *unused)
{
    await_listener();
    put_item(&recursive);
    return unused;
}

static void recursive_wait(void)
{
    init_mutex(&recursive, PTHREAD_MUTEX_RECURSIVE, 0, 0);
    threads[0] = start_thread(wait_with_two_levels, NULL);
    threads[1] = start_thread(put_recursive, NULL);
    say_ready();
    join_all(threads, 2);
}

static void *take_both_semaphores(void *argument)
{
    long i = (long)argument;

    sem_wait(&semaphores[i]);
    sem_post(&semaphores[i]);
    arrive_and_await(2);
    sem_wait(&semaphores[i]);
    arrive_and_await(4);
    sem_wait(&semaphores[1 - i]);
    sem_post(&semaphores[1 - i]);
    sem_post(&semaphores[i]);
    return NULL;
}

static void two_semaphores(void)
{
    sem_init(&semaphores[0], 0, 1);
    sem_init(&semaphores[1], 0, 1);
    for (long i = 0; i < 2; i++)
        threads[i] = start_thread(take_both_semaphores, (void *)i);
    say_ready();
    join_all(threads, 2);
}

static void *lock_second_then_first(void *unused)
{
    pthread_mutex_lock(&locks[1]);
    arrive_and_await(2);
    pthread_mutex_lock(&locks[0]);
    return unused;
}

static void *join_under_first(void *unused)
{
    pthread_mutex_lock(&locks[0]);
    arrive_and_await(2);
    pthread_join(threads[2], NULL);
    return unused;
}

static void *lock_second(void *unused)
{
    while (atomic_load(&n_there) < 2)
        usleep(1000);
    pthread_mutex_lock(&locks[1]);
    return unused;
}

static void lock_join_lock(void)
{
    threads[2] = start_thread(lock_second, NULL);
    start_thread(lock_second_then_first, NULL);
    start_thread(join_under_first, NULL);
    say_ready();
    tick_forever();
}

// Two workers of a pool run tasks that queue a task each and wait for its result, which no worker is left to compute.
static pthread_cond_t result = PTHREAD_COND_INITIALIZER;
static int n_results;

static void await_result(int n)
{
    pthread_mutex_lock(&locks[1]);
    while (n_results < n)
        pthread_cond_wait(&result, &locks[1]);
    pthread_mutex_unlock(&locks[1]);
}

static void *work_in_pool(void *unused)
{
    for (int i = 0;; i++) {
        take_item(&locks[0]);
        if (i == 1) {
            arrive_and_await(2);
            put_item(&locks[0]);
            await_result(100);
        }
        pthread_mutex_lock(&locks[1]);
        n_results++;
        pthread_cond_broadcast(&result);
        pthread_mutex_unlock(&locks[1]);
        usleep(20000);
    }
    return unused;
}

static void pool_waits_for_itself(void)
{
    start_thread(work_in_pool, NULL);
    start_thread(work_in_pool, NULL);
    for (int i = 0; i < 4; i++) {
        put_item(&locks[0]);
        usleep(10000);
    }
    say_ready();
    await_result(4);
}

// ---- cycles over pipes

static void *answer_before_asking(void *argument)
{
    long i = (long)argument;

    write_byte(pipes[i][1]);
    for (;;) {
        read_byte(pipes[1 - i][0]);
        if (atomic_fetch_add(&n_there, 1) >= 2)
            read_byte(pipes[1 - i][0]);
        else
            write_byte(pipes[i][1]);
    }
    return NULL;
}

static void pipes_crossed_reading(void)
{
    make_pipes();
    for (long i = 0; i < 2; i++)
        threads[i] = start_thread(answer_before_asking, (void *)i);
    say_ready();
    join_all(threads, 2);
}

static void *write_before_reading(void *argument)
{
    long i = (long)argument;
    static char request[1 << 20];

    for (size_t n_bytes = 16; n_bytes <= sizeof(request); n_bytes <<= 16) {
        if (write(pipes[i][1], request, n_bytes) < 0 || read(pipes[1 - i][0], request, n_bytes) < 0)
            return NULL;
    }
    return NULL;
}

static void pipes_crossed_writing(void)
{
    make_pipes();
    for (long i = 0; i < 2; i++)
        threads[i] = start_thread(write_before_reading, (void *)i);
    say_ready();
    join_all(threads, 2);
}

static void *read_under_lock(void *unused)
{
    read_byte(pipes[0][0]);
    pthread_mutex_lock(&locks[0]);
    arrive_and_await(2);
    read_byte(pipes[0][0]);
    return unused;
}

static void *lock_before_writing(void *unused)
{
    write_byte(pipes[0][1]);
    arrive_and_await(2);
    pthread_mutex_lock(&locks[0]);
    write_byte(pipes[0][1]);
    return unused;
}

static void pipe_and_mutex(void)
{
    make_pipes();
    threads[0] = start_thread(read_under_lock, NULL);
    threads[1] = start_thread(lock_before_writing, NULL);
    say_ready();
    join_all(threads, 2);
}

static void pipe_to_self(void)
{
    static char data[1 << 20];

    make_pipes();
    say_ready();
    for (size_t n_bytes = 1024; n_bytes <= sizeof(data); n_bytes <<= 10) {
        if (write(pipes[0][1], data, n_bytes) < 0 || read(pipes[0][0], data, n_bytes) < 0)
            return;
    }
}

static void parent_and_child(void)
{
    static char data[1 << 20];

    make_pipes();
    if (fork() == 0) {
        dup2(pipes[0][0], 0);
        dup2(pipes[1][1], 1);
        for (int i = 0; i < 4; i++)
            close(pipes[i / 2][i % 2]);
        execlp("cat", "cat", NULL);
    }
    close(pipes[0][0]);
    close(pipes[1][1]);
    say_ready();
    if (write(pipes[0][1], data, sizeof(data)) < 0 || read(pipes[1][0], data, sizeof(data)) < 0)
        return;
}

#define MODE(name)  \
    {               \
#name, name \
    }
static const struct mode modes[] = {
    MODE(two_mutexes),
    MODE(philosophers),
    MODE(self_mutex),
    MODE(mutex_and_rwlock),
    MODE(upgrade_of_two_readers),
    MODE(join_under_lock),
    MODE(join_ring),
    MODE(wait_under_lock),
    MODE(recursive_wait),
    MODE(two_semaphores),
    MODE(lock_join_lock),
    MODE(pool_waits_for_itself),
    MODE(pipes_crossed_reading),
    MODE(pipes_crossed_writing),
    MODE(pipe_and_mutex),
    MODE(pipe_to_self),
    MODE(parent_and_child),
};

int main(int argc, char **argv)
{
    return run_mode(modes, sizeof(modes) / sizeof(modes[0]), argc, argv);
}
