/* SPDX-License-Identifier: MIT */
/*
 * inside_tcmalloc.c - the hooks of gperftools' tcmalloc inside the executable: MallocHook_AddNewHook and
 * MallocHook_AddDeleteHook.
 *
 * tcmalloc calls them after an allocation and before a free, and holds no lock. The first allocation of a process is
 * reported twice where a hook was added before it, so one is made first.
 */
#include "inside.h"

#include <errno.h>

typedef int (*add_new_hook_fn)(void (*)(const void *ptr, size_t n));
typedef int (*add_delete_hook_fn)(void (*)(const void *ptr));

static void on_alloc(const void *ptr, size_t n)
{
    if (ptr && dp_inside_counts(n)) {
        struct deltaprof_site site = DELTAPROF_SITE_CALLER();
        dp_inside_due(ptr, n, &site);
    }
}

static void on_free(const void *ptr)
{
    deltaprof_free(0, ptr);
}

int dp_inside_tcmalloc(const struct dp_inside_tcmalloc *found)
{
    if (!found->add_new_hook || !found->add_delete_hook || !found->malloc || !found->free)
        return -ENOENT;
    void *first = ((void *(*)(size_t))found->malloc)(1);
    ((void (*)(void *))found->free)(first);
    if (!((add_delete_hook_fn)found->add_delete_hook)(on_free) || !((add_new_hook_fn)found->add_new_hook)(on_alloc))
        return -EAGAIN; /* the program has as many hooks as there may be; frees alone do no harm */
    dp_inside_sizes(found->nallocx);
    return 0;
}
