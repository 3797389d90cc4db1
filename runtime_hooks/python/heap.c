/* SPDX-License-Identifier: MIT */
/*
 * heap.c - records the memory of Python's object allocator as the heap `python`.
 *
 * PyMem_SetAllocator wraps the domains MEM and OBJ. The domain RAW is malloc, which has its own hooks. MEM and OBJ call
 * malloc too, for large blocks; a hook here guards the thread's countdown around the real call, so that each request
 * counts once, as Python's. Objects that the interpreter takes from its free lists are not recorded. The interpreter's
 * own allocator serves small requests without malloc, so they need no guard; memory that it gets from malloc for its
 * tables counts as malloc's.
 *
 * The hooks are installed before main, which every version allows. The interpreter sets its own allocators again when
 * it starts with PYTHONMALLOC or -X dev, and from 3.12 on when it starts a second time. Other wrappers, such as
 * tracemalloc, restore the allocators that they found. Each of these may remove the hooks. So after LOOK_EVERY samples
 * of malloc without a sample of this heap, dp_python_look checks whether the hooks are the outermost allocator; if not,
 * it installs them around that allocator. The check runs at the end of a hook of malloc in a thread that has the
 * interpreter's lock: so the interpreter is alive, no thread is in one of these domains, and an allocation under way
 * ends with the functions that it began with.
 *
 * If another allocator has wrapped the hooks, the check installs them a second time. The outer hook guards the inner
 * one, so each request still counts once. An allocator that was wrapped before gets the same entry of `wrapped` again,
 * so restarts need no new entries.
 *
 * A malloc of up to small_most bytes without a sample costs a subtraction, and ends with a jump to the real function. A
 * free costs nothing: a sample asks the interpreter's allocator for more than small_most bytes, so that its block comes
 * from malloc, and the hooks of malloc see its free. The interpreter's own free stays in place, which compilers inline
 * where objects die. Where a sample's block does not come from malloc (each event is a sample, or the malloc is not
 * hooked), the frees of its domain come to hook_free until the hooks are installed anew; so they do if another
 * allocator is wrapped, because its free needs its ctx.
 *
 * The interpreter's own allocator passes a larger request on to malloc, once and with the same size. If the hooks of
 * malloc are there, they subtract it from the countdown: so where no sample is due, this hook leaves it to them.
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
enum { RAW, MEM, OBJ, DOMAINS };

enum { LOOK_EVERY = 16, RAW_LOOK_EVERY = 256, MOST_WRAPPED = 16, SMALL_MOST = 512 };

/* The wrapped allocators. The hooks' ctx points to one of them. Written with the interpreter's lock. */
static struct wrapped {
    struct allocator real;
    size_t small_most; /* requests of 1 to so many bytes go to the interpreter's own allocator, which calls no malloc */
    size_t large_least; /* it passes those of at least so many bytes to malloc, whose hook counts them */
    const struct deltaprof_gate *gate;
    uint32_t heap;
    int domain; /* 0: the entry is unused */
} wrapped[MOST_WRAPPED] __attribute__((aligned(64)));
static uint32_t heap;
static const struct deltaprof_gate *gate;

/* The interpreter's functions. NULL: the hooks are not installed. */
static void (*get_allocator)(int, struct allocator *);
static void (*set_allocator)(int, struct allocator *);
static int (*is_initialized)(void);
static int (*has_lock)(void);

/*
 * The function of the interpreter's own allocator, which serves small requests without malloc, and gets no ctx. NULL:
 * not known, or the key `mmap` is on. Then small requests are guarded too, so that mappings of this allocator are not
 * recorded.
 */
static void *(*own_malloc)(void *ctx, size_t n);

static uint8_t n_unseen; /* samples of malloc since the last sample of this heap; inexact if threads race */
static uint32_t n_own;   /* samples of this heap; inexact as well */

/* The allocator of RAW at the start, and whether the hooks of malloc count what it gives. */
static struct allocator raw;
static bool raw_is_counted;

static void set_large_least(void);

/*
 * Called at the end of a sampled allocation: notes that the hooks are in place, and checks RAW now and then. In an
 * outermost hook the library may create its threads here.
 */
static inline void finish_sample(void)
{
    __atomic_store_n(&n_unseen, 0, __ATOMIC_RELAXED);
    if (__builtin_expect(deltaprof_poll_wanted, 0) && !deltaprof_is_guarded() && !dp_python_is_forking())
        deltaprof_poll();
    uint32_t n = __atomic_load_n(&n_own, __ATOMIC_RELAXED) + 1;
    __atomic_store_n(&n_own, n, __ATOMIC_RELAXED);
    if (n % RAW_LOOK_EVERY == 0)
        set_large_least();
}

static bool sees_free(const struct wrapped *to, const struct deltaprof_sample *sample, const void *ptr);

/* A rare path is a separate function. The hook ends with a jump to it, so its caller is the hook's caller. */
#define RARE static __attribute__((noinline))

/* The bytes to ask the real allocator for, for a sample of n: if its block must be malloc's, more than small_most. */
static size_t bytes_to_ask(const struct deltaprof_sample *sample, const struct wrapped *to, size_t n)
{
    return deltaprof_sample_ask_page(sample) && n <= to->small_most ? to->small_most + 1 : n;
}

RARE void *malloc_sampled(void *ctx, size_t n)
{
    const struct wrapped *to = ctx;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    struct deltaprof_sample sample;
    deltaprof_sample_begin(&sample, heap, n);
    void *ptr = to->real.malloc(to->real.ctx, bytes_to_ask(&sample, to, n));
    deltaprof_sample_end(&sample, sees_free(to, &sample, ptr) ? ptr : NULL, &site);
    finish_sample();
    return ptr;
}

/* Whether a sample is due. If not, nothing is subtracted: the hook of malloc will do that. */
static inline bool is_due(size_t n)
{
    int64_t rest;
    return deltaprof_countdown_ends(deltaprof_thread.countdown, n, &rest);
}

RARE void *malloc_guarded(void *ctx, size_t n)
{
    const struct wrapped *to = ctx;
    int64_t rest;
    if (n >= to->large_least)
        return is_due(n) ? malloc_sampled(ctx, n) : own_malloc(NULL, n);
    if (deltaprof_countdown_subtract(n, &rest))
        return malloc_sampled(ctx, n);
    void *ptr = to->real.malloc(to->real.ctx, n);
    deltaprof_countdown_restore(rest);
    return ptr;
}

static void *hook_malloc(void *ctx, size_t n)
{
    const struct wrapped *to = ctx;
    if (__builtin_expect(n - 1 >= to->small_most, 0))
        return malloc_guarded(ctx, n);
    if (deltaprof_countdown_count(n))
        return malloc_sampled(ctx, n);
    return own_malloc(NULL, n);
}

static size_t product(size_t count, size_t size)
{
    size_t n;
    return __builtin_mul_overflow(count, size, &n) ? SIZE_MAX : n;
}

RARE void *calloc_sampled(void *ctx, size_t count, size_t size)
{
    const struct wrapped *to = ctx;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    struct deltaprof_sample sample;
    size_t n = product(count, size);
    deltaprof_sample_begin(&sample, heap, n);
    size_t n_asked = bytes_to_ask(&sample, to, n);
    void *ptr = n_asked == n ? to->real.calloc(to->real.ctx, count, size) : to->real.calloc(to->real.ctx, 1, n_asked);
    deltaprof_sample_end(&sample, sees_free(to, &sample, ptr) ? ptr : NULL, &site);
    finish_sample();
    return ptr;
}

RARE void *calloc_guarded(void *ctx, size_t count, size_t size)
{
    const struct allocator *to = ctx;
    int64_t rest;
    if (deltaprof_countdown_subtract(product(count, size), &rest))
        return calloc_sampled(ctx, count, size);
    void *ptr = to->calloc(to->ctx, count, size);
    deltaprof_countdown_restore(rest);
    return ptr;
}

static void *hook_calloc(void *ctx, size_t count, size_t size)
{
    const struct wrapped *to = ctx;
    size_t n = product(count, size);
    if (n - 1 >= to->small_most)
        return calloc_guarded(ctx, count, size);
    if (deltaprof_countdown_count(n))
        return calloc_sampled(ctx, count, size);
    return to->real.calloc(NULL, count, size);
}

RARE void *realloc_sampled(void *ctx, void *old, size_t n)
{
    const struct wrapped *to = ctx;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    struct deltaprof_sample sample;
    deltaprof_realloc_begin(&sample, heap, old, n);
    void *ptr = to->real.realloc(to->real.ctx, old, bytes_to_ask(&sample, to, n));
    /* For 0 bytes Python returns a block: it never frees. */
    deltaprof_realloc_end(&sample, ptr != NULL, sees_free(to, &sample, ptr) ? ptr : NULL, &site);
    finish_sample();
    return ptr;
}

RARE void *realloc_guarded(void *ctx, void *old, size_t n)
{
    const struct allocator *to = ctx;
    int64_t rest;
    if (deltaprof_countdown_subtract(n, &rest))
        return realloc_sampled(ctx, old, n);
    void *ptr = to->realloc(to->ctx, old, n);
    deltaprof_countdown_restore(rest);
    return ptr;
}

static inline __attribute__((always_inline)) void *realloc_unsampled(void *ctx, void *old, size_t n)
{
    const struct wrapped *to = ctx;
    if (n < to->large_least)
        return realloc_guarded(ctx, old, n);
    return is_due(n) ? realloc_sampled(ctx, old, n) : to->real.realloc(NULL, old, n);
}

/* For a block of which the gate does not know that it is unsampled. */
RARE void *realloc_uncertain(void *ctx, void *old, size_t n)
{
    const struct wrapped *to = ctx;
    if (!deltaprof_gate_page_passes(to->gate, old) &&
        (deltaprof_may_be_live(to->heap, old) || deltaprof_may_be_live(0, old)))
        return realloc_sampled(ctx, old, n);
    return realloc_unsampled(ctx, old, n);
}

static void *hook_realloc(void *ctx, void *old, size_t n)
{
    const struct wrapped *to = ctx;
    return deltaprof_gate_passes(to->gate, old) ? realloc_unsampled(ctx, old, n) : realloc_uncertain(ctx, old, n);
}

RARE void free_sampled(void *ctx, void *ptr)
{
    const struct allocator *to = ctx;
    deltaprof_free_sampled(heap, ptr);
    to->free(to->ctx, ptr);
}

static void hook_free(void *ctx, void *ptr)
{
    const struct wrapped *to = ctx;
    if (__builtin_expect(!deltaprof_gate_passes(to->gate, ptr) && !deltaprof_gate_page_passes(to->gate, ptr) &&
                             deltaprof_may_be_live(to->heap, ptr),
                         0))
        free_sampled(ctx, ptr);
    else
        to->real.free(to->real.ctx, ptr);
}

/* Whether the hooks of malloc subtract a request to RAW from the countdown. Context: init. */
static bool counts_raw(void)
{
    enum { REQUEST = 4000 };
    const int64_t far = INT64_C(1) << 40;
    struct deltaprof_thread *thread = &deltaprof_thread, kept = *thread;
    __atomic_store_n(&thread->countdown, far, __ATOMIC_RELAXED);
    void *ptr = raw.malloc(raw.ctx, REQUEST);
    bool counted = __atomic_load_n(&thread->countdown, __ATOMIC_RELAXED) == far - REQUEST;
    thread->guard = kept.guard;
    __atomic_store_n(&thread->countdown, kept.countdown, __ATOMIC_RELAXED);
    raw.free(raw.ctx, ptr);
    return counted;
}

/* Sets large_least. Large requests are left to the hooks of malloc only while RAW is still the allocator of the start.
 */
static void set_large_least(void)
{
    struct allocator now;
    get_allocator(RAW, &now);
    bool passes = raw_is_counted && !memcmp(&now, &raw, sizeof raw);
    for (struct wrapped *to = wrapped; to < wrapped + MOST_WRAPPED; to++)
        to->large_least = passes && to->small_most ? SMALL_MOST + 1 : SIZE_MAX;
}

/* Wraps the outermost allocator of a domain, unless that is this file's. False: all entries are used. */
static bool wrap(int domain)
{
    struct allocator outermost;
    get_allocator(domain, &outermost);
    if (outermost.malloc == hook_malloc)
        return true;
    struct wrapped *to = wrapped, *end = wrapped + MOST_WRAPPED;
    while (to < end && to->domain && (to->domain != domain || memcmp(&to->real, &outermost, sizeof outermost) != 0))
        to++;
    if (to == end)
        return false;
    to->real = outermost;
    to->gate = gate;
    to->heap = heap;
    bool is_own = own_malloc && outermost.malloc == own_malloc && !outermost.ctx;
    to->small_most = is_own ? SMALL_MOST : 0;
    to->large_least = SIZE_MAX; /* until set_large_least */
    to->domain = domain;
    struct allocator ours = {&to->real, hook_malloc, hook_calloc, hook_realloc, is_own ? outermost.free : hook_free};
    set_allocator(domain, &ours);
    return true;
}

/* Installs hook_free in a domain. It stays until the hooks are installed anew. False: it cannot be installed. */
static bool hook_frees(int domain)
{
    struct allocator outermost;
    bool is_ours = wrap(domain);
    get_allocator(domain, &outermost);
    if (is_ours && outermost.free != hook_free) {
        outermost.free = hook_free;
        set_allocator(domain, &outermost);
    }
    return is_ours;
}

/* Whether a hook will see the free of this block, which the allocator has just returned. */
static bool sees_free(const struct wrapped *to, const struct deltaprof_sample *sample, const void *ptr)
{
    return !deltaprof_sample_needs_free(sample, ptr) || hook_frees(to->domain);
}

/* Sets own_malloc to OBJ's function if it lies in the interpreter, is not RAW's, and has no ctx (a wrapper has one). */
static void find_own_malloc(void)
{
    struct allocator objects;
    Dl_info info, interpreter;
    get_allocator(OBJ, &objects);
    if (!deltaprof_maps_wanted && !objects.ctx && objects.malloc != raw.malloc &&
        dladdr((void *)objects.malloc, &info) && dladdr((void *)get_allocator, &interpreter) &&
        info.dli_fbase == interpreter.dli_fbase)
        own_malloc = objects.malloc;
}

void dp_python_wrap_allocator(void)
{
    void *get = dlsym(RTLD_DEFAULT, "PyMem_GetAllocator"), *set = dlsym(RTLD_DEFAULT, "PyMem_SetAllocator");
    is_initialized = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_IsInitialized");
    has_lock = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Check");
    if (!get || !set || !is_initialized || !has_lock)
        return;
    get_allocator = (void (*)(int, struct allocator *))get;
    set_allocator = (void (*)(int, struct allocator *))set;
    heap = deltaprof_heap_register("python");
    get_allocator(RAW, &raw);
    raw_is_counted = counts_raw();
    find_own_malloc();
    gate = deltaprof_gate_share(own_malloc ? heap : 0);
    for (int domain = MEM; domain < DOMAINS; domain++)
        wrap(domain);
    set_large_least();
    dp_python_watched = true;
}

bool dp_python_watched;

void dp_python_look(void)
{
    uint8_t n = __atomic_load_n(&n_unseen, __ATOMIC_RELAXED);
    if (n < LOOK_EVERY) {
        __atomic_store_n(&n_unseen, n + 1, __ATOMIC_RELAXED);
        return;
    }
    if (!is_initialized() || dp_python.finalizing() || !has_lock())
        return;
    __atomic_store_n(&n_unseen, 0, __ATOMIC_RELAXED);
    for (int domain = MEM; domain < DOMAINS; domain++)
        wrap(domain);
    set_large_least();
}
