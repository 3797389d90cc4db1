/* SPDX-License-Identifier: MIT */
/*
 * inside_jemalloc.c - the hooks of a jemalloc 5.2 to 5.3 inside the executable: mallctl("experimental.hooks.install").
 *
 * jemalloc calls them after an allocation and before a free, with the arguments of the function that the program
 * called, and holds no lock. The hooks allocate nothing. Once they are installed, every call of jemalloc takes its
 * slower path, which costs the program a few nanoseconds a call.
 *
 * The interface is experimental. jemalloc checks the size of the structure; the meaning of the arguments is proven by
 * one call of mallocx or realloc, which must come to the hook as it was made. mallocx, realloc and rallocx have other
 * numbers in 5.3.1 than in 5.3.0, and that call tells them. If it fails, the hooks are removed.
 */
#include "inside.h"

#include <errno.h>

/* include/jemalloc/internal/hook.h of jemalloc. */
struct hooks {
    void (*alloc)(void *extra, int type, void *result, uintptr_t result_raw, uintptr_t args[3]);
    void (*dalloc)(void *extra, int type, void *address, uintptr_t args[3]);
    void (*expand)(void *extra, int type, void *address, size_t n_old, size_t n_new, uintptr_t result_raw,
                   uintptr_t args[4]);
    void *extra;
};
enum { MALLOC, POSIX_MEMALIGN, ALIGNED_ALLOC, CALLOC, MEMALIGN, VALLOC }; /* then mallocx, realloc and rallocx */
enum { EXPAND_REALLOC, EXPAND_RALLOCX, EXPAND_XALLOCX };

typedef int (*mallctl_fn)(const char *name, void *old, size_t *n_old, void *new, size_t n_new);
typedef void *(*mallocx_fn)(size_t n, int flags);
typedef void *(*realloc_fn)(void *ptr, size_t n);
typedef void (*sdallocx_fn)(void *ptr, size_t n, int flags);
typedef void (*free_fn)(void *ptr);

/* The state of one allocator's hooks, of which a program may have several. */
struct known {
    int mallocx_type; /* the number of mallocx in this version; -1: not known yet */
    void *probe;      /* the block of the call by which the hook learnt it */
};
enum { PROBE_BYTES = 1234, MOST_ALLOCATORS = 4 };

/* The size that the program asked for, by the arguments of the function that it called. */
static size_t requested_bytes(const struct known *known, int type, const uintptr_t args[3])
{
    size_t n;
    if (type == POSIX_MEMALIGN)
        return args[2];
    if (type == CALLOC)
        return __builtin_mul_overflow(args[0], args[1], &n) ? SIZE_MAX : n;
    if (type == ALIGNED_ALLOC || type == MEMALIGN || type > known->mallocx_type)
        return args[1];
    return args[0];
}

static void on_alloc(void *extra, int type, void *result, uintptr_t result_raw, uintptr_t args[3])
{
    struct known *known = extra;
    (void)result_raw;
    if (__builtin_expect(known->mallocx_type < 0, 0)) {
        if (args[0] == PROBE_BYTES || args[1] == PROBE_BYTES) {
            known->mallocx_type = args[0] == PROBE_BYTES ? type : type - 1;
            known->probe = result;
        }
        return;
    }
    size_t n = requested_bytes(known, type, args);
    if (result && dp_inside_counts(n)) {
        struct deltaprof_site site = DELTAPROF_SITE_CALLER();
        dp_inside_due(result, n, &site);
    }
}

static void on_free(void *extra, int type, void *address, uintptr_t args[3])
{
    (void)extra, (void)type, (void)args;
    deltaprof_free(0, address);
}

/* The block stayed where it is, with another size. */
static void on_expand(void *extra, int type, void *address, size_t n_old, size_t n_new, uintptr_t result_raw,
                      uintptr_t args[4])
{
    (void)extra, (void)result_raw;
    if (type == EXPAND_XALLOCX && n_old == n_new)
        return;
    size_t n = type == EXPAND_XALLOCX ? n_new : args[1];
    deltaprof_free(0, address);
    if (dp_inside_counts(n)) {
        struct deltaprof_site site = DELTAPROF_SITE_CALLER();
        dp_inside_due(address, n, &site);
    }
}

/*
 * Calls a function of the allocator, so that on_alloc learns its number. Returns whether it did. Frees the block,
 * unless the executable has no function that frees.
 */
static bool probe(const struct dp_inside_jemalloc *found, const struct known *known)
{
    void *ptr =
        found->mallocx ? ((mallocx_fn)found->mallocx)(PROBE_BYTES, 0) : ((realloc_fn)found->realloc)(NULL, PROBE_BYTES);
    bool is_known = ptr && known->mallocx_type > VALLOC && known->probe == ptr;
    if (ptr && found->sdallocx)
        ((sdallocx_fn)found->sdallocx)(ptr, PROBE_BYTES, 0);
    else if (found->free)
        ((free_fn)found->free)(ptr);
    return is_known;
}

int dp_inside_jemalloc(const struct dp_inside_jemalloc *found)
{
    static struct known allocators[MOST_ALLOCATORS];
    static unsigned n_allocators;
    if (!found->mallctl || (!found->mallocx && !found->realloc) || n_allocators == MOST_ALLOCATORS)
        return -ENOENT;
    struct known *known = &allocators[n_allocators++];
    struct hooks hooks = {on_alloc, on_free, on_expand, known};
    mallctl_fn mallctl = (mallctl_fn)found->mallctl;
    void *handle = NULL;
    size_t n_handle = sizeof handle;
    known->mallocx_type = -1;
    int err = mallctl("experimental.hooks.install", &handle, &n_handle, &hooks, sizeof hooks);
    if (err)
        return -err;
    if (probe(found, known)) {
        dp_inside_sizes(found->nallocx);
        deltaprof_jemalloc(mallctl);
        return 0;
    }
    mallctl("experimental.hooks.remove", NULL, NULL, &handle, sizeof handle);
    return -ENOTSUP;
}
