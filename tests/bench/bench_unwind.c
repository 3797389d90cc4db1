/* SPDX-License-Identifier: MIT */
/*
 * bench_unwind.c - measures the cost of a walk per frame, in code without frame pointers:
 *
 *     new        every frame differs from the last walk (the whole stack has moved)
 *     repeated   the stack of the last walk, except for the leaf
 *     backtrace  libunwind's unw_backtrace, which has its own cache
 *     fp         frame pointers, in the same code built with them, addresses only
 *     miss       one address whose rule is not in the cache
 *
 * The fixed cost of a walk is subtracted: the cost at a depth of one.
 */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "bench.h"
#include "host/objects/frames.h"
#include "host/thread/thread.h"
#include "host/unwind/stack_cache.h"
#include "host/unwind/unwind.h"
#include "host/unwind/unwind_cache.h"

enum { WALKS = 20000, SHIFTS = 16, MISSES = 4096 };

void chain_plain(int depth, int shift, void (*fn)(void *), void *ctx);
void chain_fp(int depth, int shift, void (*fn)(void *), void *ctx);

static volatile uintptr_t sink;

struct run {
    int n;
    double ns; /* of the walks only */
    uint64_t frames;
};

static __attribute__((noinline)) void site_here(struct deltaprof_site *site)
{
    *site = DELTAPROF_SITE_CALLER();
}

static __attribute__((noinline)) void walk_once(struct run *r)
{
    struct deltaprof_site site;
    struct dp_stack stack;
    site_here(&site);
    double begin = bench_clock_ns(CLOCK_MONOTONIC);
    dp_unwind_walk(DP_KIND_HEAP, dp_thread_scratch(), &site, &stack);
    r->ns += bench_clock_ns(CLOCK_MONOTONIC) - begin;
    r->frames += stack.depth;
}

static void leaf_new(void *ctx)
{
    walk_once(ctx);
    __asm__ volatile("" ::: "memory");
}

/* Walks from two call sites in turns: the leaf differs, all other frames repeat. */
static void leaf_repeated(void *ctx)
{
    struct run *r = ctx;
    struct deltaprof_site sites[2];
    struct dp_stack stack;
    site_here(&sites[0]);
    site_here(&sites[1]);
    double begin = bench_clock_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < r->n; i++) {
        dp_unwind_walk(DP_KIND_HEAP, dp_thread_scratch(), &sites[i & 1], &stack);
        r->frames += stack.depth;
    }
    r->ns += bench_clock_ns(CLOCK_MONOTONIC) - begin;
}

static void leaf_moved(void *ctx)
{
    struct run *r = ctx;
    struct deltaprof_site site;
    struct dp_stack stack;
    site_here(&site);
    struct dp_stack_cache *cache = dp_thread_scratch();
    dp_unwind_walk(DP_KIND_HEAP, dp_thread_scratch(), &site, &stack); /* lays the block out */
    double begin = bench_clock_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < r->n; i++) {
        dp_stack_cache_clear(cache);
        dp_unwind_walk(DP_KIND_HEAP, dp_thread_scratch(), &site, &stack);
        r->frames += stack.depth;
    }
    r->ns += bench_clock_ns(CLOCK_MONOTONIC) - begin;
}

static void leaf_backtrace(void *ctx)
{
    struct run *r = ctx;
    void *frames[256];
    double begin = bench_clock_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < r->n; i++)
        r->frames += (uint64_t)unw_backtrace(frames, 256);
    r->ns += bench_clock_ns(CLOCK_MONOTONIC) - begin;
}

static void leaf_fp(void *ctx)
{
    struct run *r = ctx;
    uintptr_t frames[256];
    double begin = bench_clock_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < r->n; i++) {
        const uintptr_t *fp = __builtin_frame_address(0);
        unsigned n = 0;
        for (const uintptr_t *next = fp; n < (unsigned)r->n && n < 256 && next >= fp && next < fp + 16384;
             next = (const uintptr_t *)next[0])
            frames[n++] = next[1];
        sink = frames[n - 1];
        r->frames += n;
    }
    r->ns += bench_clock_ns(CLOCK_MONOTONIC) - begin;
}

typedef void (*leaf_fn)(void *);
typedef void (*chain_fn)(int, int, leaf_fn, void *);

/* These are a few hundred nanoseconds of pure computation, so the fastest round is the best estimate. */
static double best(const double *values, int n)
{
    double least = values[0];
    for (int i = 1; i < n; i++)
        least = values[i] < least ? values[i] : least;
    return least;
}

/* ns for one walk at this depth, and frames of it. */
static double per_walk(chain_fn chain, leaf_fn leaf, int depth, double *frames)
{
    double ns[BENCH_ROUNDS_MAX];
    int rounds = bench_rounds();
    for (int i = 0; i < rounds; i++) {
        struct run r = {.n = WALKS};
        chain(depth, i % SHIFTS, leaf, &r);
        ns[i] = r.ns / WALKS;
        *frames = (double)r.frames / WALKS;
    }
    return best(ns, rounds);
}

static void measure(const char *name, chain_fn chain, leaf_fn leaf)
{
    static const int depths[] = {5, 16, 36, 100};
    double base_frames, base = per_walk(chain, leaf, 1, &base_frames);
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        double frames, ns = per_walk(chain, leaf, depths[i], &frames);
        char label[64];
        snprintf(label, sizeof label, "unwind %s depth %d", name, depths[i]);
        bench_print(label, (ns - base) / (frames - base_frames), "ns/frame");
        snprintf(label, sizeof label, "unwind %s depth %d, all of it", name, depths[i]);
        bench_print(label, ns, "ns");
    }
}

/* New and moved: each walk finds the stack at another address, with the same depth. */
static void measure_moving(int depth)
{
    struct run r = {0};
    for (int i = 0; i < 2000; i++)
        chain_plain(depth, i % SHIFTS, leaf_new, &r);
    r = (struct run){0};
    for (int i = 0; i < 4000; i++)
        chain_plain(depth, i % SHIFTS, leaf_new, &r);
    char label[64];
    snprintf(label, sizeof label, "unwind moving stack depth %d, with a clock call", depth);
    bench_print(label, r.ns / (double)r.frames, "ns/frame");
}

static void measure_misses(void)
{
    const struct dp_object *o = dp_object_get(dp_object_find((uintptr_t)&qsort));
    double ns[BENCH_ROUNDS_MAX];
    int rounds = bench_rounds();
    for (int i = 0; i < rounds; i++) {
        double begin = bench_clock_ns(CLOCK_MONOTONIC);
        for (uint32_t k = 0; k < MISSES; k++) {
            uint32_t fde = (k * 7919u + (uint32_t)i) % o->n_fdes;
            uintptr_t pc = (uintptr_t)o->eh_frame_hdr + (uintptr_t)(intptr_t)o->fde_table[2 * fde] + 9;
            sink = dp_unwind_cache_fill(pc + 1, 0);
        }
        ns[i] = (bench_clock_ns(CLOCK_MONOTONIC) - begin) / MISSES;
    }
    bench_print("unwind miss", best(ns, rounds), "ns");
}

int main(void)
{
    if (dp_frames_init(8 << 20) || dp_unwind_init(DP_UNWIND_AUTO, 256, 4 << 20) ||
        dp_thread_init(dp_unwind_scratch_bytes(), 2 << 20))
        return 1;
    deltaprof_guard_enter();
    dp_thread_borrow();
    measure("new", chain_plain, leaf_moved);
    measure("repeated", chain_plain, leaf_repeated);
    measure("new, code with frame pointers", chain_fp, leaf_moved);
    measure("repeated, code with frame pointers", chain_fp, leaf_repeated);
    measure("backtrace", chain_plain, leaf_backtrace);
    measure("fp", chain_fp, leaf_fp);
    measure_moving(36);
    measure_misses();
    return 0;
}
