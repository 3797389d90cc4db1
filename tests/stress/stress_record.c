/* SPDX-License-Identifier: MIT */
/*
 * Threads use the record table, live_blocks and the heap's hooks at the same time: no event is lost or counted twice,
 * and a concurrent reader never sees a counter shrink or more freed than allocated.
 */
#include "../support/totals.h"
#include "host/thread/gate.h"
#include "host/api/recording.h"
#include "host/heap/live_blocks.h"
#include "host/table/table.h"
#include "host/thread/thread.h"
#include "stress.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define THREADS 8u

static struct dp_config conf;
static atomic_bool stop;

/* ---- the same new stacks from all threads at once ---- */

#define STACKS 2000u
static pthread_barrier_t barrier;
static dp_record_id found[THREADS][STACKS];

static void intern_all(unsigned thread)
{
    dp_frame_id frames[40];
    for (unsigned i = 0; i < STACKS; i++) {
        uint32_t depth = 1 + i % 40;
        for (uint32_t k = 0; k < depth; k++)
            frames[k] = 1000 + i / 4 + k * (i % 4); /* neighbours share most of their frames */
        struct dp_stack stack = {.depth = depth, .frames = frames, .hash = dp_stack_hash(frames, depth)};
        if (i % 50 == 0)
            pthread_barrier_wait(&barrier);
        found[thread][i] = dp_table_intern(DP_KIND_MUTEX, 0, i, &stack);
        dp_table_add(DP_KIND_MUTEX, found[thread][i], 1, i);
    }
}

static void one_stack_is_one_record(void)
{
    pthread_barrier_init(&barrier, NULL, THREADS);
    stress_threads(THREADS, intern_all);
    for (unsigned i = 0; i < STACKS; i++) {
        for (unsigned thread = 1; thread < THREADS; thread++)
            CHECK(found[thread][i] == found[0][i], "stack %u has two records", i);
        struct dp_counts counts;
        dp_table_read(DP_KIND_MUTEX, found[0][i], &counts);
        CHECK(counts.n == THREADS && counts.v == (int64_t)THREADS * i, "stack %u: %lld", i, (long long)counts.n);
        const struct dp_record *record = dp_table_record(DP_KIND_MUTEX, found[0][i]);
        CHECK(record->depth == 1 + i % 40 && record->labels == i && dp_table_frames(record)[0] == 1000 + i / 4);
    }
    unsigned rows = 0;
    for (uint32_t id = 0; id < dp_table_count(DP_KIND_MUTEX); id++) {
        struct dp_counts counts;
        dp_table_read(DP_KIND_MUTEX, id, &counts);
        rows += counts.n != 0;
    }
    CHECK(rows == STACKS, "%u rows", rows);
}

/* ---- a reader that races ---- */

static void read_on(unsigned unused)
{
    static struct dp_counts last[1 << 16];
    deltaprof_guard_enter();
    memset(last, 0, sizeof last);
    while (!atomic_load(&stop)) {
        uint32_t count = dp_table_count(DP_KIND_HEAP);
        for (uint32_t id = 0; id < count && id < 1 << 16; id++) {
            struct dp_counts now;
            dp_table_read(DP_KIND_HEAP, id, &now);
            CHECK(now.n >= now.free_n && now.v >= now.free_v, "record %u: in use %lld, %lld", id,
                  (long long)(now.n - now.free_n), (long long)(now.v - now.free_v));
            CHECK(now.n >= last[id].n && now.v >= last[id].v && now.free_n >= last[id].free_n &&
                      now.free_v >= last[id].free_v,
                  "record %u shrank", id);
            if (now.n) {
                const struct dp_record *record = dp_table_record(DP_KIND_HEAP, id);
                CHECK(record->depth >= 1 && dp_table_frames(record)[0] != 0);
            }
            last[id] = now;
        }
    }
}

/* ---- blocks that wander between threads ---- */

#define PLACES 16384u
/* A block is a number; the thread that swaps it out of its place owns it. Low bits: its size. */
static _Atomic uint64_t places[PLACES];
static _Atomic int64_t allocated_n, allocated_v, missed;
static struct deltaprof_gate gate;
static size_t size_max = 5000;
static unsigned reuse; /* addresses per thread; few, so that the filter's bytes and slots are reused often */

static __attribute__((noinline)) void allocate(uint64_t address, size_t n_bytes)
{
    deltaprof_alloc(0, (void *)address, n_bytes);
}

static void drop(uint64_t held)
{
    if (deltaprof_gate_passes(&gate, (void *)(held >> 16)))
        return;
    if (deltaprof_gate_page_passes(&gate, (void *)(held >> 16)))
        return;
    if (!deltaprof_may_be_live(0, (void *)(held >> 16)))
        atomic_fetch_add(&missed, 1); /* the filter says no while the block is in the set */
    else
        deltaprof_free_sampled(0, (void *)(held >> 16));
}

/* Addresses in use are unique: each thread has its own, and gets them back through its own ring. */
static _Atomic uint64_t *free_lists[THREADS];

/* Frees the block in a random place, and puts `held` there. */
static void swap_with_a_place(uint64_t *random, uint64_t held)
{
    uint64_t other = atomic_exchange(&places[stress_random(random) % (reuse * 2)], held), address = other >> 16;
    if (!other)
        return;
    drop(other);
    atomic_store(&free_lists[address >> 40][address >> 4 & 0xFFFF], address); /* its owner may hand it out again */
}

static void wander(unsigned thread)
{
    uint64_t random = 88172645463325252u + thread;
    int64_t n = 0, v = 0;
    while (!atomic_load(&stop)) {
        uint64_t address = atomic_exchange(&free_lists[thread][stress_random(&random) % reuse], 0);
        if (!address) {
            swap_with_a_place(&random, 0);
            continue;
        }
        size_t size = stress_random(&random) % size_max;
        allocate(address, size);
        n++, v += (int64_t)size;
        uint64_t held = address << 16 | size;
        if (stress_random(&random) % 4 == 0) { /* realloc: fails, or is done in place */
            struct deltaprof_sample sample;
            struct deltaprof_site site = DELTAPROF_SITE_CALLER();
            size_t larger = size + 16;
            bool done = stress_random(&random) % 2;
            if (!deltaprof_may_be_live(0, (void *)address))
                atomic_fetch_add(&missed, 1);
            deltaprof_realloc_begin(&sample, 0, (void *)address, larger);
            deltaprof_realloc_end(&sample, done, done ? (void *)address : NULL, &site);
            if (done)
                n++, v += (int64_t)larger, held = address << 16 | larger;
        }
        swap_with_a_place(&random, held);
    }
    atomic_fetch_add(&allocated_n, n);
    atomic_fetch_add(&allocated_v, v);
}

/* Runs until the time is over and, if given, enough() is true. */
static void run_part(void (*fn)(unsigned), unsigned n, bool (*enough)(void))
{
    atomic_store(&stop, false);
    struct stress_thread reader = {.fn = read_on};
    CHECK(!pthread_create(&reader.thread, NULL, stress_thread_run, &reader));
    struct stress_thread threads[THREADS];
    for (unsigned i = 0; i < n; i++) {
        threads[i] = (struct stress_thread){.fn = fn, .i = i};
        CHECK(!pthread_create(&threads[i].thread, NULL, stress_thread_run, &threads[i]));
    }
    int64_t end = stress_now_ms() + stress_length_ms();
    while (stress_now_ms() < end || (enough && !enough()))
        usleep(10000);
    atomic_store(&stop, true);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i].thread, NULL);
    pthread_join(reader.thread, NULL);
}

/* every: each event is recorded, and the sums are known. */
static void wander_with(unsigned addresses_a_thread, const char *name, bool every)
{
    reuse = addresses_a_thread;
    struct dp_counts before = totals();
    uint64_t full = dp_stats_read(DP_STAT_LIVE_FULL);
    atomic_store(&missed, 0);
    atomic_store(&allocated_n, 0);
    atomic_store(&allocated_v, 0);
    for (unsigned t = 0; t < THREADS; t++) {
        free_lists[t] = calloc(65536, sizeof **free_lists);
        for (unsigned i = 0; i < addresses_a_thread; i++)
            atomic_store(&free_lists[t][i], (uint64_t)t << 40 | 1u << 20 | i << 4);
    }
    run_part(wander, THREADS, NULL);
    for (unsigned i = 0; i < PLACES; i++) {
        uint64_t held = atomic_exchange(&places[i], 0);
        if (held)
            drop(held);
    }
    struct dp_counts after = totals();
    full = dp_stats_read(DP_STAT_LIVE_FULL) - full;
    CHECK(after.n > before.n);
    CHECK(!every || after.n - before.n == allocated_n, "%lld of %lld", (long long)(after.n - before.n),
          (long long)allocated_n);
    CHECK(!every || after.v - before.v == allocated_v);
    CHECK(after.n == after.free_n && after.v == after.free_v, "%s: %lld blocks in use at the end, %lld missed", name,
          (long long)(after.n - after.free_n), (long long)missed);
    CHECK(!every || missed <= (int64_t)full, "%lld frees passed by the filter", (long long)missed);
    printf("%s: %lld events, %llu found no room\n", name, (long long)allocated_n, (unsigned long long)full);
    for (unsigned t = 0; t < THREADS; t++)
        free(free_lists[t]);
}

/* ---- signal handlers that allocate and free in the middle of everything ---- */

static __thread unsigned handler_turn, handler_thread;
static _Atomic uint64_t handler_runs;

static void on_signal(int sig)
{
    uint64_t address = (uint64_t)(handler_thread + 64) << 40 | (handler_turn++ % 8 + 1) << 4;
    allocate(address, 100);
    drop(address << 16);
    atomic_fetch_add_explicit(&handler_runs, 1, memory_order_relaxed);
}

static void interrupted(unsigned thread)
{
    handler_thread = thread;
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    event._sigev_un._tid = gettid();
    CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer));
    struct itimerspec every = {{0, 53000 + thread * 1000}, {0, 50000}};
    CHECK(!timer_settime(timer, 0, &every, NULL));
    wander(thread);
    CHECK(!timer_delete(timer));
}

static int64_t n_before_handlers;

static bool many_handlers_ran(void)
{
    return handler_runs > 1000 && totals().n > n_before_handlers;
}

static void handlers_in_the_middle(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    CHECK(!sigaction(SIGUSR1, &action, NULL));
    struct dp_counts before = totals();
    n_before_handlers = before.n;
    reuse = 64;
    atomic_store(&missed, 0);
    for (unsigned t = 0; t < THREADS; t++) {
        free_lists[t] = calloc(65536, sizeof **free_lists);
        for (unsigned i = 0; i < reuse; i++)
            atomic_store(&free_lists[t][i], (uint64_t)t << 40 | 1u << 20 | i << 4);
    }
    run_part(interrupted, THREADS, many_handlers_ran);
    for (unsigned i = 0; i < PLACES; i++) {
        uint64_t held = atomic_exchange(&places[i], 0);
        if (held)
            drop(held);
    }
    struct dp_counts after = totals();
    CHECK(handler_runs > 0);
    CHECK(after.n == after.free_n && after.v == after.free_v, "%lld blocks in use",
          (long long)(after.n - after.free_n));
    CHECK(after.n > before.n);
    printf("handlers: %llu runs\n", (unsigned long long)handler_runs);
    for (unsigned t = 0; t < THREADS; t++)
        free(free_lists[t]);
}

/* ---- more stacks than the table holds ---- */

static void overflow(unsigned thread)
{
    uint64_t random = 2463534242u + thread;
    int64_t n = 0;
    while (!atomic_load(&stop)) {
        dp_frame_id frames[64];
        for (unsigned i = 0; i < 64; i++)
            frames[i] = 1 + (uint32_t)(stress_random(&random) % 100000);
        struct dp_stack stack = {.depth = 64, .frames = frames, .hash = dp_stack_hash(frames, 64)};
        dp_table_add(DP_KIND_BLOCK, dp_table_intern(DP_KIND_BLOCK, 0, 0, &stack), 1, 3);
        n++;
    }
    atomic_fetch_add(&allocated_n, n);
}

static bool is_full(void)
{
    return dp_stats_read(DP_STAT_OVERFLOW) > 0;
}

static void a_full_table_keeps_its_totals(void)
{
    atomic_store(&allocated_n, 0);
    run_part(overflow, THREADS, is_full);
    struct dp_counts sum = {0}, one;
    for (uint32_t id = 0; id < dp_table_count(DP_KIND_BLOCK); id++) {
        dp_table_read(DP_KIND_BLOCK, id, &one);
        sum.n += one.n, sum.v += one.v;
    }
    CHECK(sum.n == allocated_n && sum.v == 3 * allocated_n);
    dp_table_read(DP_KIND_BLOCK, 0, &one);
    CHECK(one.n > 0 && (uint64_t)one.n == dp_stats_read(DP_STAT_OVERFLOW));
    printf("overflow: %lld of %lld events\n", (long long)one.n, (long long)sum.n);
}

int main(void)
{
    dp_config_init(&conf);
    conf.memory = 16 << 20;
    deltaprof_gate_open(&gate, DELTAPROF_GIVES_PAGES);
    CHECK(!dp_record_init(&conf));
    conf.heap_rate = DP_GATE_RATE_MIN;
    dp_record_tune(&conf, true);
    size_max = 60000;
    wander_with(64, "samples, some of them at page boundaries", false);
    wander_with(8192, "samples, few of them at page boundaries", false);
    size_max = 5000;
    conf.heap_rate = 1;
    dp_record_tune(&conf, true);
    one_stack_is_one_record();
    wander_with(4, "few addresses", true);
    wander_with(64, "some addresses", true);
    wander_with(8192, "many addresses", true);
    handlers_in_the_middle();
    a_full_table_keeps_its_totals();
    return 0;
}
