/* SPDX-License-Identifier: MIT */
/*
 * host/resident/count.c - counts the anonymous resident pages of each mapping.
 *
 * Most of what a short process maps is the profiler's address space, which was never touched, and code of files. The
 * first is looked at once. The second is left out, unless the other mappings have fewer pages than the kernel's sum.
 */
#include "host/resident/count.h"

#include "base/mem.h"

#include <errno.h>
#include <stdbool.h>

/* Pages by which the kernel's sum may differ from that of what is looked at. */
#define MISSING ((size_t)16)

struct range {
    uintptr_t start, end;
};

struct counting {
    struct dp_resident_pages *pages;
    const struct dp_vma *vmas;
    size_t n_vmas;
    DP_VEC(struct dp_resident_pages_count) counts; /* of each mapping */
    DP_VEC(struct range) own;                      /* the profiler's mappings, sorted */
    struct dp_resident_pages_count all;
};

static void add_count(struct dp_resident_pages_count *sum, struct dp_resident_pages_count count)
{
    sum->n_sole += count.n_sole;
    sum->n_others += count.n_others;
}

/* Shared mappings of the profiler are not anonymous. */
static void count_own(struct counting *c)
{
    uintptr_t start;
    size_t n_bytes;
    for (unsigned i = 0; i < DP_MEM_MAPPINGS; i++) {
        if (!dp_mem_mapping(i, &start, &n_bytes))
            continue;
        uintptr_t end = dp_page_ceil(start + n_bytes);
        size_t at = c->own.n++;
        for (; at && c->own.at[at - 1].start > start; at--)
            c->own.at[at] = c->own.at[at - 1];
        c->own.at[at] = (struct range){start, end};
    }
    c->pages->step = 1;
    for (size_t i = 0; i < c->own.n; i++)
        add_count(&c->all, dp_resident_pages_look(c->pages, c->own.at[i].start, c->own.at[i].end));
}

static bool is_code_of_file(const struct dp_vma *vma)
{
    return !vma->is_anonymous && !vma->is_writable && vma->is_code;
}

/* Address space that a program only reserved is left out. */
static bool is_looked_at(const struct dp_resident_pages *pages, const struct dp_vma *vma)
{
    if (pages->pagemap < 0 && !vma->is_anonymous && !vma->is_writable)
        return false;
    return vma->kind != DP_VMA_SHARED && (vma->is_accessible || vma->end - vma->start <= DP_PAGES_LOOKED_AT) &&
           (vma->kind != DP_VMA_FILE || vma->end - vma->start <= DP_PAGES_LOOKED_AT || vma->is_writable);
}

/*
 * A mapping without the profiler's own parts: the kernel joins its mappings with others. *next: the first own range
 * that may end above the mapping's start.
 */
static struct dp_resident_pages_count look_outside(const struct counting *c, const struct dp_vma *vma, size_t *next)
{
    struct dp_resident_pages_count count = {0};
    for (uintptr_t at = vma->start, end; at < vma->end; at = end) {
        while (*next < c->own.n && c->own.at[*next].end <= at)
            ++*next;
        const struct range *own = *next < c->own.n && c->own.at[*next].start < vma->end ? &c->own.at[*next] : NULL;
        bool is_own = own && own->start <= at;
        end = is_own ? own->end : own ? own->start : vma->end;
        end = end < vma->end ? end : vma->end;
        if (!is_own)
            add_count(&count, dp_resident_pages_look(c->pages, at, end));
    }
    return count;
}

/* Counts the pages of mappings that are code of files, or of the others. */
static void look_at(struct counting *c, bool code)
{
    size_t next = 0;
    for (size_t i = 0; i < c->n_vmas; i++) {
        const struct dp_vma *vma = &c->vmas[i];
        if (is_code_of_file(vma) != code || !is_looked_at(c->pages, vma))
            continue;
        c->counts.at[i] = look_outside(c, vma, &next);
        add_count(&c->all, c->counts.at[i]);
    }
}

static double share_of_others(const struct dp_resident_pages *pages, const struct dp_resident_pages_count *all,
                              int64_t anon_bytes)
{
    int64_t n_left = anon_bytes / (int64_t)dp_page_bytes() - (int64_t)all->n_sole;
    if (pages->pagemap < 0 || !all->n_others || n_left >= (int64_t)all->n_others)
        return 1;
    return n_left > 0 ? (double)n_left / (double)all->n_others : 0;
}

static void count_all(struct counting *c, int64_t anon_bytes)
{
    size_t sum = 0;
    for (size_t i = 0; i < c->n_vmas; i++) {
        c->counts.at[i] = (struct dp_resident_pages_count){0};
        sum += is_looked_at(c->pages, &c->vmas[i]) ? c->vmas[i].end - c->vmas[i].start : 0;
    }
    c->pages->step = 1 + sum / DP_PAGES_LOOKED_AT;
    look_at(c, false);
    if ((int64_t)(c->all.n_sole + MISSING) < anon_bytes / (int64_t)dp_page_bytes())
        look_at(c, true); /* code was changed, or another process has pages in common with this one */
    c->pages->others_share = share_of_others(c->pages, &c->all, anon_bytes);
}

int dp_resident_count(struct dp_resident_pages *pages, struct dp_vma *vmas, size_t n_vmas, int64_t anon_bytes,
                      int64_t *own_bytes)
{
    struct counting c = {.pages = pages, .vmas = vmas, .n_vmas = n_vmas};
    int err = -ENOMEM;
    if (dp_vec_room(&c.counts, n_vmas + 1) && dp_vec_room(&c.own, DP_MEM_MAPPINGS)) {
        count_own(&c);
        struct dp_resident_pages_count own = c.all;
        count_all(&c, anon_bytes);
        for (size_t i = 0; i < n_vmas; i++)
            vmas[i].anonymous_bytes = dp_resident_pages_bytes(pages, &c.counts.at[i]);
        *own_bytes = dp_resident_pages_bytes(pages, &own);
        err = 0;
    }
    dp_vec_fini(&c.counts);
    dp_vec_fini(&c.own);
    return err;
}
