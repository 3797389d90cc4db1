/* SPDX-License-Identifier: MIT */
/*
 * Measures the parts of the heap's hooks, and a pair of malloc and free through hooks.h, as an interposer makes it. The
 * pair is compared with the same pair without hooks: profiler off, sampling, and every allocation recorded, in 1 to 8
 * threads that all have the same stack.
 */
#include "bench.h"
#include "host/api/recording.h"
#include "host/heap/live_blocks.h"
#include "host/table/table.h"
#include "host/thread/thread.h"

#include <deltaprof/hooks.h>

#define PAIR_BYTES 100

static struct dp_config conf;

/* ---- a small interposer ---- */

static void *(*volatile real_malloc)(size_t) = malloc;
static void (*volatile real_free)(void *) = free;

static __attribute__((noinline)) void *bare_malloc(size_t n)
{
    return real_malloc(n);
}

static __attribute__((noinline)) void bare_free(void *p)
{
    real_free(p);
}

static __attribute__((noinline, cold)) void *malloc_due(size_t n, const struct deltaprof_site *site)
{
    struct deltaprof_sample sample;
    deltaprof_sample_begin(&sample, 0, n);
    void *p = real_malloc(n);
    deltaprof_sample_end(&sample, p, site);
    return p;
}

static __attribute__((noinline)) void *hooked_malloc(size_t n)
{
    int64_t rest;
    if (deltaprof_countdown_subtract(n, &rest)) {
        struct deltaprof_site site = DELTAPROF_SITE_CALLER();
        return malloc_due(n, &site);
    }
    void *p = real_malloc(n);
    deltaprof_countdown_restore(rest);
    return p;
}

static __attribute__((noinline, cold)) void free_due(void *p)
{
    deltaprof_free_sampled(0, p);
    real_free(p);
}

static __attribute__((noinline)) void hooked_free(void *p)
{
    if (deltaprof_may_be_live(0, p))
        free_due(p);
    else
        real_free(p);
}

/* ---- a stack of five frames: pair <- level3 <- level2 <- level1 <- the thread ---- */

static void *(*volatile allocate)(size_t);
static void (*volatile release)(void *);

static __attribute__((noinline)) void pairs(long n)
{
    void *(*alloc_fn)(size_t) = allocate;
    void (*free_fn)(void *) = release;
    for (long i = 0; i < n; i++) {
        void *p = alloc_fn(PAIR_BYTES);
        __asm__ volatile("" : "+r"(p) : : "memory");
        free_fn(p);
    }
}

static __attribute__((noinline)) void level2(unsigned thread, long n)
{
    pairs(n);
    __asm__ volatile("");
}

static void level1(unsigned thread, long n)
{
    level2(thread, n);
    __asm__ volatile("");
}

static double measure(unsigned threads, void *(*a)(size_t), void (*f)(void *), long n)
{
    allocate = a;
    release = f;
    return bench_threads(threads, level1, n);
}

static const char *only; /* part of a name; NULL: all */

static void pair(const char *mode, int64_t rate, bool on, long n)
{
    if (only && !strstr(mode, only))
        return;
    conf.heap_rate = rate;
    dp_record_tune(&conf, on);
    for (unsigned threads = 1; threads <= 8; threads *= 2) {
        double bare[BENCH_ROUNDS_MAX], hooked[BENCH_ROUNDS_MAX];
        int rounds = bench_rounds();
        for (int i = 0; i < rounds; i++) {
            bare[i] = measure(threads, bare_malloc, bare_free, n);
            hooked[i] = measure(threads, hooked_malloc, hooked_free, n);
        }
        char name[64];
        double b = bench_median(bare, rounds), h = bench_median(hooked, rounds);
        snprintf(name, sizeof name, "pair_%s_%u_threads_bare", mode, threads);
        bench_print(name, b, "ns");
        snprintf(name, sizeof name, "pair_%s_%u_threads_hooked", mode, threads);
        bench_print(name, h, "ns");
        snprintf(name, sizeof name, "pair_%s_%u_threads_added", mode, threads);
        bench_print(name, h - b, "ns");
    }
}

/* ---- parts ---- */

static void part_word(unsigned thread, long n) /* the pair's inline halves alone */
{
    for (long i = 0; i < n; i++) {
        int64_t rest;
        void *p = (void *)(uintptr_t)(0x7f0000001000 + (i & 255) * 64);
        __asm__ volatile("" : "+r"(p) : : "memory");
        if (deltaprof_countdown_subtract(1, &rest))
            rest = INT64_MAX / 4;
        __asm__ volatile("" : : : "memory");
        deltaprof_countdown_restore(rest);
        deltaprof_free(0, p);
    }
}

static void part_intern(unsigned thread, long n)
{
    dp_frame_id frames[5] = {21, 22, 23, 24, 25};
    struct dp_stack stack = {.depth = 5, .frames = frames, .hash = dp_stack_hash(frames, 5)};
    for (long i = 0; i < n; i++) {
        __asm__ volatile("" : : : "memory");
        dp_table_intern(DP_KIND_HEAP, 0, 0, &stack);
    }
}

static void part_add(unsigned thread, long n) /* an alloc and its free; all threads use one record */
{
    dp_frame_id frames[5] = {31, 32, 33, 34, 35};
    struct dp_stack stack = {.depth = 5, .frames = frames, .hash = dp_stack_hash(frames, 5)};
    dp_thread_set_up(dp_thread_self());
    dp_record_id id = dp_table_intern(DP_KIND_HEAP, 0, 0, &stack);
    for (long i = 0; i < n; i++) {
        dp_table_add(DP_KIND_HEAP, id, 1, 100);
        dp_table_add_free(DP_KIND_HEAP, id, 1, 100);
    }
}

static void part_live(unsigned thread, long n) /* insert and take one block at a time */
{
    uintptr_t key = 0x7f0000001000 + ((uintptr_t)thread << 30);
    struct dp_heap_live_block entry = {.record = 1, .objects = 1, .bytes = 100}, out;
    for (long i = 0; i < n; i++) {
        dp_heap_live_blocks_insert(key + (i & 255) * 64, &entry, &out);
        dp_heap_live_blocks_remove(key + (i & 255) * 64, &out);
    }
}

static void part(const char *name, bench_fn fn, long n)
{
    if (only && !strstr(name, only))
        return;
    for (unsigned threads = 1; threads <= 8; threads *= 2) {
        double ns[BENCH_ROUNDS_MAX];
        int rounds = bench_rounds();
        for (int i = 0; i < rounds; i++)
            ns[i] = bench_threads(threads, fn, n);
        char line[64];
        snprintf(line, sizeof line, "%s_%u_threads", name, threads);
        bench_print(line, bench_median(ns, rounds), "ns");
    }
}

int main(int argc, char **argv)
{
    only = argc > 1 ? argv[1] : NULL;
    dp_config_init(&conf);
    if (dp_record_init(&conf))
        return 1;
    part("word", part_word, 2000000);
    part("table_intern", part_intern, 1000000);
    part("table_alloc_and_free", part_add, 1000000);
    part("live_insert_and_take", part_live, 1000000);
    pair("off", 0, false, 500000);
    pair("sampled_512k", 512 << 10, true, 500000);
    pair("exact", 1, true, 100000);
    return 0;
}
