/* SPDX-License-Identifier: MIT */
/*
 * heap.c - Python's object allocator as the heap `python`.
 *
 * PyMem_SetAllocator wraps the domains MEM and OBJ. The domain RAW is malloc, which has its own hooks. MEM and OBJ call
 * malloc too, for large blocks; a hook here guards the thread's countdown around the real call, so that each request
 * counts once, as Python's. Objects that the interpreter takes from its free lists are no events.
 *
 * It is installed before main, which every version allows. With PYTHONMALLOC and -X dev the interpreter sets its
 * allocators when it starts, which removes this one: then there are Python's frames and malloc, and no heap `python`.
 * tracemalloc wraps this allocator, and later removes only itself.
 *
 * A call before the profiler's first sample is due costs a subtraction; a free asks the filter of live blocks.
 */
#include "python.h"

#include <dlfcn.h>

/* PyMemAllocatorEx and PyMemAllocatorDomain, which are public and the same in all versions. */
struct allocator {
    void *ctx;
    void *(*malloc)(void *ctx, size_t n);
    void *(*calloc)(void *ctx, size_t count, size_t size);
    void *(*realloc)(void *ctx, void *old, size_t n);
    void (*free)(void *ctx, void *ptr);
};
enum { MEM = 1, OBJ = 2, DOMAINS };

static struct allocator real[DOMAINS]; /* by domain; the address of one is the hooks' ctx */
static uint32_t heap;

/* The outer edge of a sampled allocation, where the library may make its threads. */
static inline void edge(void)
{
    if (__builtin_expect(deltaprof_poll_wanted, 0) && !deltaprof_is_guarded())
        deltaprof_poll();
}

/* A sampled path is a separate function, to which the hook jumps, so that its caller is the caller of the hook. */
#define SAMPLED static __attribute__((noinline))

SAMPLED void *malloc_sampled(void *ctx, size_t n)
{
    const struct allocator *to = ctx;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    struct deltaprof_sample sample;
    deltaprof_sample_begin(&sample, heap, n);
    void *ptr = to->malloc(to->ctx, n);
    deltaprof_sample_end(&sample, ptr, &site);
    edge();
    return ptr;
}

static void *hook_malloc(void *ctx, size_t n)
{
    const struct allocator *to = ctx;
    int64_t rest;
    if (deltaprof_countdown_subtract(n, &rest))
        return malloc_sampled(ctx, n);
    void *ptr = to->malloc(to->ctx, n);
    deltaprof_countdown_restore(rest);
    return ptr;
}

static size_t product(size_t count, size_t size)
{
    size_t n;
    return __builtin_mul_overflow(count, size, &n) ? SIZE_MAX : n;
}

SAMPLED void *calloc_sampled(void *ctx, size_t count, size_t size)
{
    const struct allocator *to = ctx;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    struct deltaprof_sample sample;
    deltaprof_sample_begin(&sample, heap, product(count, size));
    void *ptr = to->calloc(to->ctx, count, size);
    deltaprof_sample_end(&sample, ptr, &site);
    edge();
    return ptr;
}

static void *hook_calloc(void *ctx, size_t count, size_t size)
{
    const struct allocator *to = ctx;
    int64_t rest;
    if (deltaprof_countdown_subtract(product(count, size), &rest))
        return calloc_sampled(ctx, count, size);
    void *ptr = to->calloc(to->ctx, count, size);
    deltaprof_countdown_restore(rest);
    return ptr;
}

SAMPLED void *realloc_sampled(void *ctx, void *old, size_t n)
{
    const struct allocator *to = ctx;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    struct deltaprof_sample sample;
    deltaprof_realloc_begin(&sample, heap, old, n);
    void *ptr = to->realloc(to->ctx, old, n);
    deltaprof_realloc_end(&sample, ptr != NULL, ptr, &site); /* of 0 bytes it gives a block: it never frees */
    edge();
    return ptr;
}

static void *hook_realloc(void *ctx, void *old, size_t n)
{
    const struct allocator *to = ctx;
    int64_t rest;
    if (deltaprof_may_be_live(heap, old) || deltaprof_countdown_subtract(n, &rest))
        return realloc_sampled(ctx, old, n);
    void *ptr = to->realloc(to->ctx, old, n);
    deltaprof_countdown_restore(rest);
    return ptr;
}

static void hook_free(void *ctx, void *ptr)
{
    const struct allocator *to = ctx;
    deltaprof_free(heap, ptr);
    to->free(to->ctx, ptr);
}

void dp_python_wrap_allocator(void)
{
    void (*get)(int, struct allocator *) = (void (*)(int, struct allocator *))dlsym(RTLD_DEFAULT, "PyMem_GetAllocator");
    void (*set)(int, struct allocator *) = (void (*)(int, struct allocator *))dlsym(RTLD_DEFAULT, "PyMem_SetAllocator");
    if (!get || !set)
        return;
    heap = deltaprof_heap_register("python");
    for (int domain = MEM; domain < DOMAINS; domain++) {
        get(domain, &real[domain]);
        struct allocator ours = {&real[domain], hook_malloc, hook_calloc, hook_realloc, hook_free};
        set(domain, &ours);
    }
}
