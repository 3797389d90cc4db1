/* SPDX-License-Identifier: MIT */
/*
 * host/resident/jemalloc.c - reads jemalloc's statistics through mallctl, by the names that jemalloc(3) gives.
 *
 * A block in a thread's cache is in use for the slab that it lies in, as it is for glibc's malloc.
 */
#include "host/resident/jemalloc.h"

#include "base/atomic.h"
#include "base/text.h"

#include <stdbool.h>
#include <sys/types.h>

/* Of jemalloc 5, the arena that stands for all of them. */
#define ALL_ARENAS "stats.arenas.4096."

static _Atomic(dp_resident_mallctl_fn) known; /* relaxed: a function of a library that stays loaded */
static _Atomic bool is_ambiguous;             /* relaxed: set at init */

void dp_resident_jemalloc_learn(dp_resident_mallctl_fn mallctl)
{
    dp_resident_mallctl_fn before = dp_load_relaxed(&known);
    if (before && before != mallctl)
        dp_store_relaxed(&is_ambiguous, true);
    dp_store_relaxed(&known, mallctl);
}

/* Reads a value of n_bytes. False: this jemalloc has none of that name and size. */
static bool read_value(dp_resident_mallctl_fn mallctl, const char *name, void *value, size_t n_bytes)
{
    size_t n = n_bytes;
    return !mallctl(name, value, &n, NULL, 0) && n == n_bytes;
}

static bool read_size(dp_resident_mallctl_fn mallctl, const char *name, size_t *value)
{
    return read_value(mallctl, name, value, sizeof *value);
}

/* A value of a class of slabs. */
static bool read_of_class(dp_resident_mallctl_fn mallctl, const char *begin, unsigned class, const char *what,
                          void *value, size_t n_bytes)
{
    char name[64];
    dp_text_format(name, sizeof name, "%s%u.%s", begin, class, what);
    return read_value(mallctl, name, value, n_bytes);
}

/* False: the class cannot be told. */
static bool read_class(dp_resident_mallctl_fn mallctl, struct dp_resident_jemalloc *j, unsigned i)
{
    size_t n_bytes, n_used, n_slabs;
    uint32_t n_places;
    if (!read_of_class(mallctl, "arenas.bin.", i, "size", &n_bytes, sizeof n_bytes) ||
        !read_of_class(mallctl, "arenas.bin.", i, "nregs", &n_places, sizeof n_places) ||
        !read_of_class(mallctl, ALL_ARENAS "bins.", i, "curregs", &n_used, sizeof n_used) ||
        !read_of_class(mallctl, ALL_ARENAS "bins.", i, "curslabs", &n_slabs, sizeof n_slabs))
        return false;
    int64_t n_free = (int64_t)(n_slabs * n_places) - (int64_t)n_used;
    j->classes[i].n_bytes = n_bytes;
    j->classes[i].n_used = (int64_t)n_used;
    j->classes[i].free_bytes = n_used && n_free > 0 ? n_free * (int64_t)n_bytes : 0;
    return true;
}

static bool read_classes(dp_resident_mallctl_fn mallctl, struct dp_resident_jemalloc *j)
{
    unsigned n;
    if (!read_value(mallctl, "arenas.nbins", &n, sizeof n) || n > DP_JEMALLOC_CLASSES_MOST)
        return false;
    for (unsigned i = 0; i < n; i++)
        if (!read_class(mallctl, j, i))
            return false;
    j->n_classes = n;
    return true;
}

/* How decay is set: what a user can change. */
static void read_settings(dp_resident_mallctl_fn mallctl, struct dp_resident_free *free)
{
    bool is_background;
    ssize_t ms;
    if (read_value(mallctl, "background_thread", &is_background, sizeof is_background) && is_background)
        free->n_background++;
    if (read_value(mallctl, "arenas.dirty_decay_ms", &ms, sizeof ms) && ms < 0)
        free->n_never_decay++;
}

void dp_resident_jemalloc_read(struct dp_resident_jemalloc *j, struct dp_resident_free *free)
{
    dp_resident_mallctl_fn mallctl = dp_load_relaxed(&known);
    uint64_t epoch = 1;
    size_t page, n_dirty, n_muzzy, cached = 0;
    bool has_statistics;
    *j = (struct dp_resident_jemalloc){0};
    if (!mallctl || dp_load_relaxed(&is_ambiguous) ||
        !read_value(mallctl, "config.stats", &has_statistics, sizeof has_statistics) || !has_statistics ||
        mallctl("epoch", NULL, NULL, &epoch, sizeof epoch) || !read_size(mallctl, "arenas.page", &page) ||
        !read_size(mallctl, ALL_ARENAS "pdirty", &n_dirty) || !read_size(mallctl, ALL_ARENAS "pmuzzy", &n_muzzy) ||
        !read_classes(mallctl, j))
        return;
    read_size(mallctl, ALL_ARENAS "tcache_bytes", &cached); /* from 5.1 on */
    free->n_jemalloc++;
    free->decay_bytes += (int64_t)((n_dirty + n_muzzy) * page);
    free->cached_bytes += (int64_t)cached;
    for (unsigned i = 0; i < j->n_classes; i++)
        free->pinned_bytes += j->classes[i].free_bytes;
    read_settings(mallctl, free);
}

int64_t dp_resident_jemalloc_pinned_by(const struct dp_resident_jemalloc *j, size_t n_bytes)
{
    for (unsigned i = 0; i < j->n_classes; i++)
        if (n_bytes <= j->classes[i].n_bytes)
            return j->classes[i].n_used ? j->classes[i].free_bytes / j->classes[i].n_used : 0;
    return 0;
}
