/* SPDX-License-Identifier: MIT */
/*
 * Threads start and end, and children are forked meanwhile: counts stay exact, blocks of scratch memory are returned, a
 * child counts from the fork on, finds its inherited blocks, and never hangs.
 */
#include "../support/totals.h"
#include "host/api/recording.h"
#include "host/table/record.h"
#include "host/table/table.h"
#include "host/thread/thread.h"
#include "stress.h"

#include <deltaprof/hooks.h>
#include <sys/wait.h>
#include <unistd.h>

static struct dp_config conf;
static atomic_bool stop;

static __attribute__((noinline)) void allocate(uint64_t address, size_t n_bytes)
{
    deltaprof_alloc(0, (void *)address, n_bytes);
}

/* ---- threads that come and go ---- */

#define EVENTS 100u
static pthread_key_t late;
static _Atomic int64_t late_runs;

/* Runs after the profiler's key destructor in some rounds: events of a thread that has no block any more. */
static void at_thread_exit(void *arg)
{
    uintptr_t round = (uintptr_t)arg;
    allocate((uint64_t)(uintptr_t)&deltaprof_thread + round, 10);
    deltaprof_free(0, (char *)&deltaprof_thread + round);
    atomic_fetch_add(&late_runs, 1);
    if (round < 3)
        pthread_setspecific(late, (void *)(round + 1));
}

static void short_life(unsigned i)
{
    for (unsigned k = 0; k < EVENTS; k++)
        allocate(((uint64_t)i + 1) << 32 | k << 4, 100);
    for (unsigned k = 0; k < EVENTS; k++)
        deltaprof_free(0, (void *)(((uint64_t)i + 1) << 32 | k << 4));
    pthread_setspecific(late, (void *)1);
}

static void threads_come_and_go(void)
{
    int64_t end = stress_now_ms() + stress_length_ms(), threads = 0;
    CHECK(!pthread_key_create(&late, at_thread_exit));
    struct dp_counts before = totals();
    while (stress_now_ms() < end) {
        unsigned n = threads % 3 ? 30 : 1; /* more threads than can keep a block, and a single one */
        stress_threads(n, short_life);
        threads += n;
    }
    struct dp_counts after = totals();
    CHECK(late_runs == 3 * threads);
    CHECK(after.n - before.n == threads * EVENTS + late_runs, "%lld", (long long)(after.n - before.n));
    CHECK(after.n == after.free_n && after.v == after.free_v);
    printf("threads: %lld came and went, %llu events found no scratch\n", (long long)threads,
           (unsigned long long)dp_stats_read(DP_STAT_STACKS_BUSY));
    uint64_t none = dp_stats_read(DP_STAT_STACKS_BUSY);
    stress_threads(1, short_life); /* all blocks were returned: one thread gets its block */
    CHECK(dp_stats_read(DP_STAT_STACKS_BUSY) == none);
}

/* ---- fork in the middle of it ---- */

#define WORKERS 6u
#define PLACES  256u
static _Atomic uint64_t places[PLACES]; /* blocks that only a child frees */

static void work(unsigned i)
{
    uint64_t random = 5 + i;
    for (uint64_t turn = 0; !atomic_load(&stop); turn++) {
        uint64_t address = ((uint64_t)i + 1) << 40 | (turn & 0xFFFFF) << 4;
        allocate(address, stress_random(&random) % 1000);
        if (atomic_load(&places[turn % PLACES]) == 0 && turn % 7 == 0) {
            uint64_t none = 0;
            if (atomic_compare_exchange_strong(&places[turn % PLACES], &none, ((uint64_t)i + 100) << 40 | turn << 4))
                allocate(((uint64_t)i + 100) << 40 | turn << 4, 50);
        }
        deltaprof_free(0, (void *)address);
    }
}

static void work_in_child(unsigned i)
{
    for (unsigned k = 0; k < 1000; k++) {
        allocate(((uint64_t)i + 1000) << 40 | k << 4, 8);
        deltaprof_free(0, (void *)(((uint64_t)i + 1000) << 40 | k << 4));
    }
}

static void child(void)
{
    struct dp_counts base = {0};
    allocate((uint64_t)2000 << 40, 8); /* finds the zero */
    CHECK(dp_record_fork_copy_zero());
    for (uint32_t id = 0; id < dp_table_count(DP_KIND_HEAP); id++) {
        int64_t n, v;
        dp_record_fork_base(DP_KIND_HEAP, id, &n, &v);
        base.n += n, base.v += v;
    }
    CHECK(totals().n == base.n + 1 && totals().v == base.v + 8);
    deltaprof_free(0, (void *)((uint64_t)2000 << 40));
    struct dp_counts before = totals();
    stress_threads(3, work_in_child);
    struct dp_counts after = totals();
    CHECK(after.n == before.n + 3000 && after.v == before.v + 3000 * 8);
    CHECK(after.free_n == before.free_n + 3000);
    for (unsigned i = 0; i < PLACES; i++) { /* inherited blocks; one may have been on its way in at the fork */
        uint64_t held = atomic_exchange(&places[i], 0);
        if (held)
            deltaprof_free(0, (void *)held);
    }
    struct dp_counts end = totals();
    /* At most the blocks that each worker was handling are left. */
    CHECK(end.n - end.free_n <= 2 * WORKERS, "%lld left", (long long)(end.n - end.free_n));
    _exit(0);
}

static void children_of_a_busy_parent(void)
{
    struct stress_thread workers[WORKERS];
    CHECK(!pthread_atfork(dp_record_fork_prepare, dp_record_fork_parent, dp_record_fork_child));
    atomic_store(&stop, false);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct stress_thread){.fn = work, .i = i};
        CHECK(!pthread_create(&workers[i].thread, NULL, stress_thread_run, &workers[i]));
    }
    int64_t end = stress_now_ms() + stress_length_ms();
    unsigned forks = 0;
    for (; stress_now_ms() < end; forks++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (!pid) {
            alarm(60); /* a hang ends as a failure */
            child();
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0, "child %u: status %x", forks, status);
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    CHECK(dp_record_epoch() == 0 && dp_stats_read(DP_STAT_FORK_RACES) == 0);
    printf("forks: %u\n", forks);
}

/* ---- a child's first events, all at once ---- */

#define FORKS      100u
#define FIRST_ONES 4u
#define DEPTH      10u
static pthread_barrier_t at_once;

/* Gives each number below 2^DEPTH a different stack. */
static __attribute__((noinline)) void one_of_many(unsigned depth, unsigned number)
{
    if (!depth)
        allocate((uint64_t)3000 << 40 | number << 4, 8);
    else if (number >> (depth - 1) & 1)
        one_of_many(depth - 1, number);
    else
        one_of_many(depth - 1, number);
    __asm__ volatile("" ::: "memory"); /* no tail call */
}

static void first_event(unsigned i)
{
    pthread_barrier_wait(&at_once);
    allocate((uint64_t)(4000 + i) << 40, 8);
}

static struct dp_counts zero_of_child(void)
{
    struct dp_counts zero = {0};
    for (uint32_t id = 0; id < dp_table_count(DP_KIND_HEAP); id++) {
        int64_t n, v;
        dp_record_fork_base(DP_KIND_HEAP, id, &n, &v);
        zero.n += n, zero.v += v;
    }
    return zero;
}

/* Exits with the number of events that are missing; each is counted. */
static void first_child(void)
{
    struct dp_counts before = totals();
    pthread_barrier_init(&at_once, NULL, FIRST_ONES);
    stress_threads(FIRST_ONES, first_event);
    struct dp_counts zero = zero_of_child(), after = totals();
    int64_t missing = FIRST_ONES - (after.n - before.n);
    CHECK(zero.n == before.n && zero.v == before.v);
    CHECK(after.v - before.v == (after.n - before.n) * 8);
    CHECK(missing == (int64_t)dp_stats_read(DP_STAT_FORK_RACES));
    _exit((int)missing);
}

/* The first thread copies the parent's counters, and the others wait for it. */
static void first_events_of_children(void)
{
    unsigned n_missed = 0;
    for (unsigned i = 0; i < 1u << DEPTH; i++)
        one_of_many(DEPTH, i);
    for (unsigned forks = 0; forks < FORKS; forks++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (!pid)
            first_child();
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "child %u: status %x", forks, status);
        n_missed += WEXITSTATUS(status) != 0;
    }
    printf("first events: %u of %u children missed some\n", n_missed, FORKS);
    CHECK(n_missed <= FORKS / 20); /* the copying thread was preempted */
}

int main(void)
{
    dp_config_init(&conf);
    conf.heap_rate = 1;
    conf.memory = 4 << 20; /* scratch for a few threads only */
    CHECK(!dp_record_init(&conf));
    dp_record_tune(&conf, true);
    threads_come_and_go();
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    bool forks = false; /* sanitizer runtimes do not survive a fork with many threads */
#else
    bool forks = true;
#endif
    if (forks) {
        children_of_a_busy_parent();
        first_events_of_children();
    }
    return 0;
}
