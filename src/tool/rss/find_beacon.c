/* SPDX-License-Identifier: MIT */
/*
 * tool/rss/find_beacon.c - finds the page in which a profiled process tells where it writes its profiles, how to ask
 * for one, and which mappings are the profiler's (base/beacon.h), and counts what of these is resident.
 */
#include "base/beacon.h"
#include "base/mem.h"
#include "tool/rss/rss.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool may_be_beacon(const struct dp_vma *vma)
{
    return vma->is_anonymous && !vma->n_name && !vma->is_writable && vma->is_accessible && !vma->is_shared &&
           vma->end - vma->start == dp_page_ceil(DP_BEACON_BYTES);
}

static void take_mapping(struct dp_rss_process *p, const struct dp_beacon_mapping *mapping)
{
    for (uintptr_t at = mapping->start, end, last = at + mapping->n_bytes; at < last; at = end) {
        struct dp_vma *vma = dp_vma_find(p->vmas.at, p->vmas.n, at);
        if (!vma)
            return; /* unmapped meanwhile */
        end = vma->end < last ? vma->end : last;
        int64_t bytes = dp_rss_count_pages(p->pid, at, end);
        bytes = bytes < vma->anonymous_bytes ? bytes : vma->anonymous_bytes;
        if (bytes <= 0)
            continue;
        vma->anonymous_bytes -= bytes;
        p->self_bytes += bytes;
    }
}

/* The process may have written anything there. */
static void copy_text(char to[DP_RSS_OUT], const char from[DP_BEACON_TEXT])
{
    snprintf(to, DP_RSS_OUT, "%.*s", DP_RSS_OUT - 1, from);
}

void dp_rss_beacon_read(struct dp_rss_process *p)
{
    static struct dp_beacon beacon;
    static struct dp_beacon_mapping mappings[DP_MEM_MAPPINGS];
    char path[64];
    bool is_found = false;
    snprintf(path, sizeof path, "/proc/%d/mem", (int)p->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC); /* denied: `out` is looked for in the environment */
    for (size_t i = 0; fd >= 0 && !is_found && i < p->vmas.n; i++)
        is_found = may_be_beacon(&p->vmas.at[i]) &&
                   pread(fd, &beacon, sizeof beacon, (off_t)p->vmas.at[i].start) == sizeof beacon &&
                   !memcmp(beacon.magic, DP_BEACON_MAGIC, sizeof DP_BEACON_MAGIC);
    if (is_found) {
        copy_text(p->out, beacon.out);
        copy_text(p->listen, beacon.listen);
        copy_text(p->token, beacon.token);
        p->signal = beacon.signal > 0 && beacon.signal < NSIG ? beacon.signal : 0;
        ssize_t got = pread(fd, mappings, sizeof mappings, (off_t)beacon.mappings);
        for (ssize_t i = 0; i < got / (ssize_t)sizeof *mappings; i++)
            if (mappings[i].start && mappings[i].n_bytes < UINT64_MAX - mappings[i].start)
                take_mapping(p, &mappings[i]);
    }
    if (fd >= 0)
        close(fd);
}
