// SPDX-License-Identifier: MIT
// victim_lock_places.cpp - threads wait for locks in static storage, blocks, TLS and on stacks, a function for each:
//
//     victim_lock_places [N [stays]]
//
// N (default 100): the locks of the case `many`, each in a block of its own. stays: says that all is done, and then
// waits to be killed.
#include "../../support/sleepers.hpp"

#include <cstdlib>
#include <mutex>
#include <new>
#include <pthread.h>

#define APART __attribute__((noinline))

// Two functions for each lock, so that each has a record of its own. The holder lets the waiter in when that sleeps.
#define CASE(name, type, LOCK, UNLOCK)             \
    extern "C" APART void *waits_##name(void *arg) \
    {                                              \
        type *lock = static_cast<type *>(arg);     \
        goes_to_sleep(0);                          \
        LOCK(lock);                                \
        has_slept(0);                              \
        UNLOCK(lock);                              \
        return nullptr;                            \
    }                                              \
    extern "C" APART void holds_##name(type *lock) \
    {                                              \
        LOCK(lock);                                \
        start(waits_##name, lock);                 \
        until_asleep(1, {0});                      \
        UNLOCK(lock);                              \
        pthread_join(thread, nullptr);             \
    }

static pthread_t thread;
static void start(void *(*fn)(void *), void *arg)
{
    if (pthread_create(&thread, nullptr, fn, arg))
        std::abort();
}

#define LOCK(mutex)   (mutex)->lock()
#define UNLOCK(mutex) (mutex)->unlock()

CASE(variable, pthread_mutex_t, pthread_mutex_lock, pthread_mutex_unlock)
CASE(second, pthread_mutex_t, pthread_mutex_lock, pthread_mutex_unlock)
CASE(member, std::mutex, LOCK, UNLOCK)
CASE(table, pthread_rwlock_t, pthread_rwlock_wrlock, pthread_rwlock_unlock)
CASE(block, std::mutex, LOCK, UNLOCK)
CASE(stack, pthread_mutex_t, pthread_mutex_lock, pthread_mutex_unlock)
CASE(other_stack, pthread_mutex_t, pthread_mutex_lock, pthread_mutex_unlock)
CASE(tls, pthread_mutex_t, pthread_mutex_lock, pthread_mutex_unlock)
CASE(many, pthread_mutex_t, pthread_mutex_lock, pthread_mutex_unlock)

extern "C" {
pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t work_ready = PTHREAD_COND_INITIALIZER;
}
static pthread_mutex_t parts[3] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

namespace
{
pthread_rwlock_t table_lock = PTHREAD_RWLOCK_INITIALIZER;
}

struct Cache {
    long entries[5];
    std::mutex mutex;
    static Cache instance;
};
Cache Cache::instance;

static thread_local pthread_mutex_t of_thread = PTHREAD_MUTEX_INITIALIZER;

static bool has_work;
extern "C" APART void *waits_cond(void *)
{
    pthread_mutex_lock(&cache_lock);
    while (!has_work) {
        goes_to_sleep(0);
        pthread_cond_wait(&work_ready, &cache_lock);
        has_slept(0);
    }
    pthread_mutex_unlock(&cache_lock);
    return nullptr;
}

static void wakes_cond()
{
    start(waits_cond, nullptr);
    until_asleep(1, {0});
    pthread_mutex_lock(&cache_lock);
    has_work = true;
    pthread_cond_signal(&work_ready);
    pthread_mutex_unlock(&cache_lock);
    pthread_join(thread, nullptr);
}

struct Connection {
    char name[40];
    std::mutex mutex;
};
static Connection *connection; // until the end

extern "C" APART Connection *makes_a_connection()
{
    Connection *made = new Connection;
    asm volatile("" : "+r"(made));
    return made;
}

// The owner of the stack is another thread than main, and sleeps while the reports of the run are made.
static pthread_mutex_t *its_lock;
extern "C" APART void *has_a_lock(void *)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    its_lock = &lock;
    goes_to_sleep(1);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? std::atoi(argv[1]) : 100;
    pthread_mutex_t on_stack = PTHREAD_MUTEX_INITIALIZER;
    pthread_t owner;
    if (pthread_create(&owner, nullptr, has_a_lock, nullptr))
        return 1;
    until_asleep(1, {1});
    holds_variable(&cache_lock);
    holds_second(&parts[2]);
    holds_member(&Cache::instance.mutex);
    holds_table(&table_lock);
    wakes_cond();
    connection = makes_a_connection();
    holds_block(&connection->mutex);
    holds_stack(&on_stack);
    holds_other_stack(its_lock);
    holds_tls(&of_thread);
    for (int i = 0; i < n; i++) {
        pthread_mutex_t *lock = static_cast<pthread_mutex_t *>(std::malloc(sizeof *lock)); // until the end
        pthread_mutex_init(lock, nullptr);
        holds_many(lock);
    }
    if (argc > 2) {
        std::puts("done");
        std::fflush(stdout);
        pause();
    }
    return 0;
}
