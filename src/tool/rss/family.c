/* SPDX-License-Identifier: MIT */
/* tool/rss/family.c - finds the children of a process, and adds up the memory of several processes. */
#include "tool/model/merge.h"
#include "tool/rss/rss.h"

#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The parent and the name of a process. False: it has ended. */
static bool read_parent(pid_t pid, struct dp_rss_member *member, pid_t *parent)
{
    char path[64], line[512];
    int number;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *stat = fopen(path, "re");
    char *name = stat && fgets(line, sizeof line, stat) ? strchr(line, '(') : NULL;
    char *end = name ? strrchr(name, ')') : NULL;
    if (stat)
        fclose(stat);
    if (!end || sscanf(end + 1, " %*c %d", &number) != 1)
        return false;
    *member = (struct dp_rss_member){.pid = pid};
    snprintf(member->name, sizeof member->name, "%.*s", (int)(end - name - 1), name + 1);
    *parent = number;
    return true;
}

static bool is_member(const struct dp_rss_family *f, pid_t pid)
{
    for (size_t i = 0; i < f->at.n; i++)
        if (f->at.at[i].pid == pid)
            return true;
    return false;
}

/* Adds the processes whose parents are members. The number that was added; -1: out of memory. */
static int add_children(struct dp_rss_family *f)
{
    int n = 0;
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && n >= 0 && (entry = readdir(processes));) {
        struct dp_rss_member member, *to;
        pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0, parent;
        if (!pid || is_member(f, pid) || !read_parent(pid, &member, &parent) || !is_member(f, parent))
            continue;
        to = dp_vec_push(&f->at);
        n = to ? n + 1 : -1;
        if (to)
            *to = member;
    }
    if (processes)
        closedir(processes);
    return n;
}

bool dp_rss_family_find(struct dp_rss_family *f, pid_t pid, bool with_children)
{
    pid_t parent;
    struct dp_rss_member *first = dp_vec_push(&f->at);
    if (!first)
        return false;
    if (!read_parent(pid, first, &parent))
        *first = (struct dp_rss_member){.pid = pid};
    int n = 1;
    while (with_children && n > 0)
        n = add_children(f);
    return n >= 0;
}

bool dp_rss_family_add(struct dp_rss *all, const struct dp_rss *rss)
{
    bool ok = true;
    for (size_t i = 0; i < rss->parts.n && ok; i++)
        ok = dp_rss_add(all, rss->parts.at[i].name, rss->parts.at[i].bytes);
    dp_model_merge_sum(&all->anonymous_bytes, rss->anonymous_bytes);
    dp_model_merge_sum(&all->absent_bytes, rss->absent_bytes);
    dp_model_merge_sum(&all->grown_bytes, rss->grown_bytes);
    all->error_bytes = (int64_t)hypot((double)all->error_bytes, (double)rss->error_bytes);
    all->file_bytes = rss->file_bytes > all->file_bytes ? rss->file_bytes : all->file_bytes;
    all->shared_bytes = rss->shared_bytes > all->shared_bytes ? rss->shared_bytes : all->shared_bytes;
    dp_model_merge_sum(&all->swap_bytes, rss->swap_bytes > 0 ? rss->swap_bytes : 0);
    all->is_profiled |= rss->is_profiled;
    if (rss->time_ns && (!all->time_ns || rss->time_ns < all->time_ns))
        all->time_ns = rss->time_ns;
    return ok;
}

void dp_rss_family_fini(struct dp_rss_family *f)
{
    dp_vec_fini(&f->at);
}
