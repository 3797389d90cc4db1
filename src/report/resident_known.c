/* SPDX-License-Identifier: MIT */
/*
 * report/resident_known.c - remembers from one division to the next which mappings are an allocator's. A program that
 * frees most of its memory leaves mappings without any sampled block, and its allocator still holds them. Large blocks
 * that glibc's malloc maps alone (DP_VMA_BLOCKS) are left out: other mappings soon take their places.
 *
 * Each division replaces what is remembered, so a mapping is forgotten when it is unmapped. If another thread is in
 * here, or there are more mappings than places, some are not remembered.
 */
#include "report/resident.h"

#include "base/lock.h"
#include "base/mem.h"

enum { KNOWN_MOST = 1024 };

static struct dp_lock lock;
static struct {
    size_t n;
    struct {
        uintptr_t start, end;
    } at[KNOWN_MOST]; /* in the order of their addresses */
} known DP_LARGE;

static bool may_be_allocators(const struct dp_vma *vma)
{
    return vma->kind == DP_VMA_MAPPED || vma->kind == DP_VMA_OTHER;
}

void dp_resident_known_recall(struct dp_vma *vmas, size_t n)
{
    if (!dp_lock_try(&lock))
        return;
    for (size_t i = 0, k = 0; i < n; i++) {
        while (k < known.n && known.at[k].end <= vmas[i].start)
            k++;
        if (k < known.n && known.at[k].start < vmas[i].end && may_be_allocators(&vmas[i]))
            vmas[i].kind = DP_VMA_ARENA;
    }
    dp_lock_unlock(&lock);
}

void dp_resident_known_keep(const struct dp_vma *vmas, size_t n)
{
    if (!dp_lock_try(&lock))
        return;
    known.n = 0;
    for (size_t i = 0; i < n && known.n < KNOWN_MOST; i++)
        if (vmas[i].kind == DP_VMA_ARENA) {
            known.at[known.n].start = vmas[i].start;
            known.at[known.n++].end = vmas[i].end;
        }
    dp_lock_unlock(&lock);
}

void dp_resident_known_fork_child(void)
{
    dp_lock_reset(&lock);
}
