/* SPDX-License-Identifier: MIT */
/*
 * tool/rss/running_process.c - reads the mappings of a running process, with the resident bytes of each, from
 * /proc/PID/smaps.
 *
 * The stacks of threads are known by their guard pages, and by the stack pointers of threads that sleep in the kernel
 * (/proc/PID/task/TID/syscall).
 */
#include "base/mem.h"
#include "tool/query/print.h"
#include "tool/rss/rss.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

FILE *dp_rss_process_open(pid_t pid, const char *file)
{
    char path[96];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    return fopen(path, "re");
}

/* "Max stack size  SOFT  HARD  bytes" of /proc/PID/limits. */
static size_t stack_bytes(pid_t pid)
{
    char line[256];
    unsigned long long soft = 0;
    FILE *limits = dp_rss_process_open(pid, "limits");
    while (limits && !soft && fgets(line, sizeof line, limits))
        if (sscanf(line, "Max stack size %llu", &soft) != 1)
            soft = 0;
    if (limits)
        fclose(limits);
    return soft ? (size_t)soft : (size_t)2 << 20;
}

/* A value of smaps, in kB; 0: the line has another name. */
static int64_t value_of(const char *line, const char *name)
{
    size_t n = strlen(name);
    return strncmp(line, name, n) ? 0 : strtoll(line + n, NULL, 10) * 1024;
}

/* The name goes into a separate vector. Its address is set when all names are read, because vectors move. */
static bool add_mapping(struct dp_rss_process *p, const struct dp_vma *parsed)
{
    struct dp_vma *vma = dp_vec_push(&p->vmas);
    char *name = dp_vec_room(&p->names, parsed->n_name + 1);
    if (!vma || !name)
        return false;
    memcpy(name, parsed->name, parsed->n_name);
    name[parsed->n_name] = '\0';
    *vma = *parsed;
    vma->name = NULL;
    p->names.n += parsed->n_name + 1;
    return true;
}

static bool begin_mapping(struct dp_rss_process *p, struct dp_vma *parsed)
{
    struct dp_vma below, rest;
    char root[32];
    snprintf(root, sizeof root, "/proc/%d/root", (int)p->pid);
    const struct dp_vma_cuts cuts = {root, p->stack_bytes};
    if (p->vmas.n) { /* its name is the last */
        below = p->vmas.at[p->vmas.n - 1];
        below.name = p->names.at + p->names.n - below.n_name - 1;
    }
    p->is_cut = p->vmas.n && dp_vma_cut(&cuts, &below, parsed, &rest);
    return add_mapping(p, parsed) && (!p->is_cut || add_mapping(p, &rest));
}

int64_t dp_rss_count_pages(pid_t pid, uintptr_t start, uintptr_t end)
{
    FILE *pagemap = dp_rss_process_open(pid, "pagemap");
    const uintptr_t page = dp_page_bytes();
    uint64_t word;
    int64_t n = -1;
    if (pagemap && !fseeko(pagemap, (off_t)(start / page * sizeof word), SEEK_SET)) {
        n = 0;
        for (uintptr_t at = start; at < end && fread(&word, sizeof word, 1, pagemap) == 1; at += page)
            n += word >> 63 && !(word >> 61 & 1);
    }
    if (pagemap)
        fclose(pagemap);
    return n < 0 ? n : n * (int64_t)page;
}

static void take_anonymous(struct dp_rss_process *p, int64_t bytes)
{
    struct dp_vma *vma = &p->vmas.at[p->vmas.n - 1];
    p->anonymous_bytes += bytes;
    if (p->is_cut && bytes) {
        int64_t first = dp_rss_count_pages(p->pid, vma[-1].start, vma[-1].end);
        first = first < 0 ? (int64_t)(vma[-1].end - vma[-1].start) : first;
        vma[-1].anonymous_bytes += first < bytes ? first : bytes;
        bytes -= vma[-1].anonymous_bytes;
    }
    vma->anonymous_bytes += bytes;
}

static void set_names(struct dp_rss_process *p)
{
    const char *name = p->names.at;
    for (size_t i = 0; i < p->vmas.n; i++) {
        p->vmas.at[i].name = name;
        name += p->vmas.at[i].n_name + 1;
    }
}

/* Lines of a mapping follow its header. */
static bool take_line(struct dp_rss_process *p, char *line, size_t n)
{
    struct dp_vma parsed;
    if (n && line[n - 1] == '\n')
        line[--n] = '\0';
    if (dp_vma_parse(line, n, &parsed))
        return begin_mapping(p, &parsed);
    if (!p->vmas.n)
        return true;
    const struct dp_vma *vma = &p->vmas.at[p->vmas.n - 1];
    take_anonymous(p, value_of(line, "Anonymous:"));
    p->resident_bytes += value_of(line, "Rss:");
    p->shared_bytes += vma->is_shared ? value_of(line, "Rss:") : 0;
    p->swap_bytes += value_of(line, "Swap:");
    return true;
}

/* "NR arguments 0xSP 0xPC", "-1 0xSP 0xPC" or "running". 0: not known. */
static uintptr_t stack_pointer(pid_t pid, const char *thread)
{
    char what[64], line[256];
    snprintf(what, sizeof what, "task/%.20s/syscall", thread);
    FILE *file = dp_rss_process_open(pid, what);
    if (!file)
        return 0;
    char *pc = fgets(line, sizeof line, file) ? strrchr(line, ' ') : NULL;
    fclose(file);
    if (!pc)
        return 0;
    *pc = '\0';
    char *sp = strrchr(line, ' ');
    return sp ? (uintptr_t)strtoull(sp + 1, NULL, 16) : 0;
}

static void find_stacks(struct dp_rss_process *p)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)p->pid);
    DIR *threads = opendir(path);
    if (!threads)
        return;
    for (struct dirent *entry; (entry = readdir(threads));) {
        uintptr_t sp = *entry->d_name == '.' ? 0 : stack_pointer(p->pid, entry->d_name);
        struct dp_vma *vma = dp_vma_find(p->vmas.at, p->vmas.n, sp);
        bool has_guard = vma && vma > p->vmas.at && vma[-1].end == vma->start && !vma[-1].is_accessible;
        if (has_guard && vma->kind == DP_VMA_MAPPED)
            vma->kind = DP_VMA_STACK;
    }
    closedir(threads);
}

int dp_rss_process_read(struct dp_rss_process *p, pid_t pid, const char *verb)
{
    p->pid = pid;
    p->stack_bytes = stack_bytes(pid);
    errno = 0;
    FILE *file = dp_rss_process_open(pid, "smaps");
    char *line = NULL;
    size_t room = 0;
    bool ok = true;
    if (file)
        for (ssize_t n; ok && (n = getline(&line, &room, file)) > 0;)
            ok = take_line(p, line, (size_t)n);
    int err = errno;
    free(line);
    if (file)
        fclose(file);
    if (!ok)
        dp_query_print_error(verb, "out of memory");
    else if (!file || (err && !p->vmas.n))
        dp_query_print_error(verb, "%d: /proc/%d/smaps: %s", (int)pid, (int)pid,
                             err == ENOENT || err == ESRCH ? "no such process" : strerror(err));
    else if (!p->vmas.n)
        dp_query_print_error(
            verb, "%d: this process has no memory of its own: it has ended, or is a thread of the kernel", (int)pid);
    else {
        set_names(p);
        dp_vma_classify(p->vmas.at, p->vmas.n);
        find_stacks(p);
        dp_rss_beacon_read(p);
        return 0;
    }
    return DP_EXIT_FAILED;
}

/* The sum of the anonymous bytes of a kind. */
static int64_t bytes_of(const struct dp_rss_process *p, enum dp_vma_kind kind)
{
    int64_t sum = 0;
    for (size_t i = 0; i < p->vmas.n; i++)
        sum += p->vmas.at[i].kind == kind ? p->vmas.at[i].anonymous_bytes : 0;
    return sum;
}

bool dp_rss_process_parts(const struct dp_rss_process *p, struct dp_rss *rss)
{
    rss->anonymous_bytes = p->anonymous_bytes;
    rss->shared_bytes = p->shared_bytes;
    rss->file_bytes = p->resident_bytes - p->anonymous_bytes - p->shared_bytes;
    rss->swap_bytes = p->swap_bytes;
    bool ok = dp_rss_add(rss, DP_RSS_MALLOC, bytes_of(p, DP_VMA_BRK) + bytes_of(p, DP_VMA_ARENA)) &&
              dp_rss_add(rss, DP_RSS_STACKS, bytes_of(p, DP_VMA_STACK)) &&
              dp_rss_add(rss, DP_RSS_FILES, bytes_of(p, DP_VMA_FILE)) && dp_rss_add(rss, DP_RSS_SELF, p->self_bytes);
    for (size_t i = 0; i < p->vmas.n && ok; i++) { /* memory to which the program gave a name */
        const struct dp_vma *vma = &p->vmas.at[i];
        char name[DP_RSS_NAME];
        if (vma->kind != DP_VMA_MAPPED || !vma->n_name || !vma->anonymous_bytes)
            continue;
        snprintf(name, sizeof name, "mmap %.100s", vma->name);
        ok = dp_rss_add(rss, name, vma->anonymous_bytes);
    }
    return ok;
}

void dp_rss_process_fini(struct dp_rss_process *p)
{
    dp_vec_fini(&p->vmas);
    dp_vec_fini(&p->names);
}
