/* SPDX-License-Identifier: MIT */
/*
 * host/resident/resident.c - reads how much memory is resident, and remembers which mappings are an allocator's.
 *
 * /proc/self/statm is one line of numbers of pages, of which the second is all resident pages, the third those of files
 * and of shared memory. It costs the kernel no walk through the page tables, as smaps would.
 */
#include "host/resident/resident.h"

#include "base/lock.h"
#include "base/mem.h"
#include "base/process.h"

#include <errno.h>
#include <unistd.h>

/* ---- resident pages ---- */

/* Reads the number at *at and moves *at behind the character after it. */
static int64_t number(const char **at)
{
    int64_t n = 0;
    while (**at >= '0' && **at <= '9')
        n = n * 10 + (*(*at)++ - '0');
    *at += **at != 0;
    return n;
}

int dp_resident_read(struct dp_resident *resident)
{
    char line[128];
    int saved = errno, fd = dp_process_open("statm");
    ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    int err = n < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    errno = saved;
    *resident = (struct dp_resident){0};
    if (err)
        return err;
    line[n] = 0;
    const char *at = line;
    number(&at);
    int64_t page_bytes = (int64_t)dp_page_bytes(), all = number(&at), of_files = number(&at);
    if (all < of_files || all == 0)
        return -EBADMSG;
    *resident = (struct dp_resident){all * page_bytes, (all - of_files) * page_bytes};
    return 0;
}

/* ---- mappings of allocators ---- */

/*
 * Remembers from one division to the next which mappings are an allocator's. A program that frees most of its memory
 * leaves mappings without any sampled block, and its allocator still holds them. Large blocks that glibc's malloc maps
 * alone (DP_VMA_BLOCKS) are left out: other mappings soon take their places.
 *
 * Each division forgets the mappings of the one before. So a mapping that was unmapped is forgotten. Some mappings are
 * not remembered if another thread divides at the same time, or if there are more mappings than places.
 */
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

DP_IN_CHILD void dp_resident_known_fork_child(void)
{
    dp_lock_reset(&lock);
}
