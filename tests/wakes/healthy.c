// SPDX-License-Identifier: MIT
// Programs whose threads wait for long and will wake: something outside of the threads that wait can still end
// each wait. Each is a mode, named by the argument; without one the names are listed.
#include "queue.h"
#include "wakes.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <threads.h>
#include <time.h>

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore;

static void *consume(void *unused)
{
    for (;;)
        take_item(&locks[0], &cond);
    return unused;
}

static void *produce(void *unused)
{
    for (int i = 0; i < 5; i++) {
        put_item(&locks[0], &cond);
        usleep(2000);
    }
    return unused;
}

static int listen_somewhere(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 8) != 0)
        exit(2);
    return fd;
}

static void accept_forever(void)
{
    int fd = listen_somewhere();

    say_ready();
    for (;;)
        close(accept(fd, NULL, NULL));
}

static bool is_child(void)
{
    if (fork() != 0)
        return false;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return true;
}

// ---- pools and queues

static void idle_pool(void)
{
    for (int i = 0; i < 4; i++)
        start_thread(consume, NULL);
    accept_forever();
}

static void thread_per_connection(void)
{
    start_thread(consume, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(start_thread(produce, NULL), NULL);
    accept_forever();
}

static void scheduler_of_jobs(void)
{
    start_thread(consume, NULL);
    pthread_join(start_thread(produce, NULL), NULL);
    say_ready();
    for (;;) {
        sleep(3600);
        pthread_join(start_thread(produce, NULL), NULL);
    }
}

static void signals_by_sigwait(void)
{
    sigset_t set;
    int number;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    start_thread(consume, NULL);
    say_ready();
    while (sigwait(&set, &number) == 0)
        put_item(&locks[0], &cond);
}

static void *take_semaphore(void *unused)
{
    for (;;)
        sem_wait(&semaphore);
    return unused;
}

static void post_on_signal(int number)
{
    (void)number;
    sem_post(&semaphore);
}

// The handler of a signal posts: all threads wait, and kill(1) can wake one.
static void signal_handler_posts(void)
{
    pthread_t thread;

    sem_init(&semaphore, 0, 0);
    signal(SIGUSR1, post_on_signal);
    thread = start_thread(take_semaphore, NULL);
    for (int i = 0; i < 3; i++)
        raise(SIGUSR1);
    say_ready();
    pthread_join(thread, NULL);
}

static void timer_posts(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec span = {.it_value.tv_sec = 3600, .it_interval.tv_sec = 3600};
    timer_t timer;
    pthread_t thread;

    sem_init(&semaphore, 0, 0);
    signal(SIGUSR1, post_on_signal);
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &span, NULL);
    thread = start_thread(take_semaphore, NULL);
    say_ready();
    pthread_join(thread, NULL);
}

static void *put_when_asked(void *unused)
{
    struct pollfd input = {.fd = listen_somewhere(), .events = POLLIN};

    while (poll(&input, 1, -1) == 1)
        put_item(&locks[0], &cond);
    return unused;
}

static void main_joins_pool(void)
{
    pthread_t consumer = start_thread(consume, NULL);

    start_thread(put_when_asked, NULL);
    say_ready();
    pthread_join(consumer, NULL);
}

static void main_has_ended(void)
{
    start_thread(consume, NULL);
    start_thread(put_when_asked, NULL);
    say_ready();
    pthread_exit(NULL);
}

static void slow_producer(void)
{
    start_thread(consume, NULL);
    say_ready();
    for (;;) {
        put_item(&locks[0], &cond);
        sleep(30);
    }
}

static int consume_c11(void *unused)
{
    static mtx_t mutex;
    static cnd_t event;

    (void)unused;
    mtx_init(&mutex, mtx_plain);
    cnd_init(&event);
    mtx_lock(&mutex);
    for (;;)
        cnd_wait(&event, &mutex);
    return 0;
}

static void c11_pool(void)
{
    thrd_t thread;

    thrd_create(&thread, consume_c11, NULL);
    accept_forever();
}

static void waits_for_child(void)
{
    start_thread(consume, NULL);
    if (is_child()) {
        sleep(1000);
        _exit(0);
    }
    say_ready();
    wait(NULL);
    put_item(&locks[0], &cond);
}

// ---- waits with a limit

static struct timespec in_an_hour(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec += 3600;
    return now;
}

static void *wait_an_hour(void *unused)
{
    struct timespec limit = in_an_hour();

    pthread_mutex_lock(&locks[0]);
    while (pthread_cond_timedwait(&cond, &locks[0], &limit) != ETIMEDOUT)
        continue;
    pthread_mutex_unlock(&locks[0]);
    return unused;
}

static void timed_condition(void)
{
    pthread_t thread;

    pthread_join(start_thread(produce, NULL), NULL);
    thread = start_thread(wait_an_hour, NULL);
    say_ready();
    pthread_join(thread, NULL);
}

static void *wait_an_hour_for_semaphore(void *unused)
{
    struct timespec limit = in_an_hour();

    sem_timedwait(&semaphore, &limit);
    return unused;
}

static void timed_semaphore(void)
{
    pthread_t thread;

    sem_init(&semaphore, 0, 0);
    thread = start_thread(wait_an_hour_for_semaphore, NULL);
    say_ready();
    pthread_join(thread, NULL);
}

// Two threads that lock in the two orders, with a limit for the second lock.
static void *lock_within_an_hour(void *argument)
{
    long i = (long)argument;
    struct timespec limit = in_an_hour();

    pthread_mutex_lock(&locks[i]);
    arrive_and_await(2);
    if (pthread_mutex_timedlock(&locks[1 - i], &limit) == 0)
        pthread_mutex_unlock(&locks[1 - i]);
    pthread_mutex_unlock(&locks[i]);
    return NULL;
}

static void timed_orders(void)
{
    pthread_t threads[2] = {start_thread(lock_within_an_hour, (void *)0), start_thread(lock_within_an_hour, (void *)1)};

    say_ready();
    join_all(threads, 2);
}

static void *lock_slowly(void *unused)
{
    pthread_mutex_lock(&locks[0]);
    arrive_and_await(0);
    sleep(1000);
    pthread_mutex_unlock(&locks[0]);
    return unused;
}

// Two threads that lock in the two orders, and let go when the second lock is not to be had.
static void *lock_or_retreat(void *argument)
{
    long i = (long)argument;

    for (;;) {
        pthread_mutex_lock(&locks[i]);
        usleep(1000 * (i + 1));
        if (pthread_mutex_trylock(&locks[1 - i]) == 0)
            pthread_mutex_unlock(&locks[1 - i]);
        pthread_mutex_unlock(&locks[i]);
        usleep(700 * (2 - i));
    }
    return NULL;
}

static void retreating_orders(void)
{
    start_thread(lock_or_retreat, (void *)0);
    start_thread(lock_or_retreat, (void *)1);
    say_ready();
    tick_forever();
}

// ---- holders that are slow

static void *lock_first(void *unused)
{
    pthread_mutex_lock(&locks[0]);
    pthread_mutex_unlock(&locks[0]);
    return unused;
}

static void slow_owner(void)
{
    pthread_t waiter;

    start_thread(lock_slowly, NULL);
    while (atomic_load(&n_there) < 1)
        usleep(1000);
    waiter = start_thread(lock_first, NULL);
    say_ready();
    pthread_join(waiter, NULL);
}

static void *read_slowly(void *unused)
{
    pthread_rwlock_rdlock(&rwlock);
    arrive_and_await(0);
    sleep(1000);
    pthread_rwlock_unlock(&rwlock);
    return unused;
}

static void *read_and_end(void *unused)
{
    pthread_rwlock_rdlock(&rwlock);
    pthread_rwlock_unlock(&rwlock);
    return unused;
}

static void slow_reader(void)
{
    pthread_join(start_thread(read_and_end, NULL), NULL);
    start_thread(read_slowly, NULL);
    while (atomic_load(&n_there) < 1)
        usleep(1000);
    say_ready();
    pthread_rwlock_wrlock(&rwlock);
}

static void *sleep_long(void *unused)
{
    sleep(1000);
    return unused;
}

// A reader that waits for the owner of a mutex, who waits for a writer's lock that another reader has.
static pthread_rwlock_t other_rwlock = PTHREAD_RWLOCK_INITIALIZER;

static void *read_then_lock(void *unused)
{
    pthread_rwlock_rdlock(&other_rwlock);
    pthread_rwlock_rdlock(&rwlock);
    pthread_rwlock_unlock(&rwlock);
    arrive_and_await(3);
    pthread_mutex_lock(&locks[0]);
    return unused;
}

static void *lock_then_write(void *unused)
{
    pthread_mutex_lock(&locks[0]);
    arrive_and_await(3);
    pthread_rwlock_wrlock(&rwlock);
    return unused;
}

static void readers_of_two_locks(void)
{
    start_thread(read_then_lock, NULL);
    start_thread(lock_then_write, NULL);
    pthread_rwlock_rdlock(&rwlock);
    arrive_and_await(3);
    say_ready();
    sleep(1000);
    pthread_rwlock_unlock(&rwlock);
}

static void join_of_sleeper(void)
{
    say_ready();
    pthread_join(start_thread(sleep_long, NULL), NULL);
}

static void *compute_long(void *unused)
{
    for (volatile unsigned long i = 0;; i++)
        if (i % 10000000 == 0)
            usleep(20000);
    return unused;
}

static void join_of_computation(void)
{
    say_ready();
    pthread_join(start_thread(compute_long, NULL), NULL);
}

static void *meet_late(void *argument)
{
    if (!argument)
        sleep(1000);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void late_for_barrier(void)
{
    pthread_t threads[3];

    pthread_barrier_init(&barrier, NULL, 3);
    for (long i = 0; i < 3; i++)
        threads[i] = start_thread(meet_late, (void *)i);
    say_ready();
    join_all(threads, 3);
}

// The address of a mutex whose owner ended is that of a new mutex.
static void reused_address(void)
{
    pthread_join(start_thread(lock_first, NULL), NULL);
    pthread_mutex_lock(&locks[0]);
    pthread_mutex_unlock(&locks[0]);
    memset(&locks[0], 0, sizeof(locks[0]));
    pthread_mutex_init(&locks[0], NULL);
    slow_owner();
}

#define MODE(name)  \
    {               \
#name, name \
    }
static const struct mode modes[] = {
    MODE(idle_pool),
    MODE(thread_per_connection),
    MODE(scheduler_of_jobs),
    MODE(signals_by_sigwait),
    MODE(signal_handler_posts),
    MODE(timer_posts),
    MODE(main_joins_pool),
    MODE(main_has_ended),
    MODE(slow_producer),
    MODE(c11_pool),
    MODE(waits_for_child),
    MODE(timed_condition),
    MODE(timed_semaphore),
    MODE(retreating_orders),
    MODE(slow_owner),
    MODE(slow_reader),
    MODE(join_of_sleeper),
    MODE(join_of_computation),
    MODE(late_for_barrier),
    MODE(reused_address),
    MODE(timed_orders),
    MODE(readers_of_two_locks),
};

int main(int argc, char **argv)
{
    return run_mode(modes, sizeof(modes) / sizeof(modes[0]), argc, argv);
}
