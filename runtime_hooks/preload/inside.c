/* SPDX-License-Identifier: MIT */
/*
 * inside.c - finds allocators that were linked into the executable, and records what their hooks report.
 *
 * The stack of such a report begins inside the allocator. The functions of the allocator are recognized by their names,
 * and their frames at the leaf end are left out. So the stack begins at the function that allocated, as it does for a
 * hook of malloc.
 */
#include "inside.h"

#include "hook.h"

#include <stdio.h>
#include <string.h>

enum { MOST_CODE = 2048, N_PREFIXES = 3 };

/* Sorted, without overlaps once attached. */
static struct {
    struct deltaprof_code ranges[MOST_CODE];
    unsigned n;
} code DP_LARGE;

struct found {
    struct dp_inside_jemalloc jemalloc[N_PREFIXES];
    struct dp_inside_tcmalloc tcmalloc;
    bool is_jemalloc, is_tcmalloc; /* other functions of it are there too: no namesake is called */
};

/*
 * The functions that may stand between the program and a hook, or that map memory. A program may have functions that
 * are named alike (je_parse, imalloc), so a name must be one of these, and a local function must come from a file of
 * the allocator. Names are without the prefix that a build of jemalloc has.
 */
static const char *const jemalloc_api[] = {"malloc",         "calloc",   "realloc", "aligned_alloc",
                                           "posix_memalign", "memalign", "valloc",  "pvalloc",
                                           "mallocx",        "rallocx",  "xallocx", NULL};
static const char *const jemalloc_internal[] = {
    "hook_invoke_alloc",  "hook_invoke_dalloc",
    "hook_invoke_expand", "malloc_default",
    "arena_ralloc",       "large_ralloc",
    "pages_map",          "pages_unmap",
    "pages_commit",       "pages_decommit",
    "extent_alloc_mmap",  "extent_alloc_dss",
    "extent_dss_boot",    NULL,
};
static const char *const jemalloc_local[] = {
    "imalloc",
    "imalloc_body",
    "imalloc_sample",
    "imalloc_no_sample",
    "imalloc_init_check",
    "imalloc_nocheck",
    "do_rallocx",
    "do_realloc_nonnull_zero",
    "irallocx_prof",
    "irallocx_prof_sample",
    "iralloct",
    "iralloct_explicit_slab",
    "iralloct_realign",
    "os_pages_map",
    "os_pages_unmap",
    "os_pages_commit",
    "pages_map",
    "hook_invoke_alloc",
    NULL,
};
/* Without directory and ending. Link-time optimization makes one file of all. */
static const char *const jemalloc_files[] = {"jemalloc",    "jemalloc_cpp", "arena",        "large",   "hook", "pages",
                                             "extent_mmap", "extent_dss",   "<artificial>", "ld-temp", NULL};
/* One that ends in '*' is a prefix. */
static const char *const cxx_names[] = {"_Znw*", "_Zna*", "_Z13fallback_implILb*", "_Z7newImplILb*", NULL};
static const char *const tcmalloc_names[] = {
    "tc_malloc",
    "tc_malloc_skip_new_handler",
    "tc_calloc",
    "tc_realloc",
    "tc_memalign",
    "tc_posix_memalign",
    "tc_valloc",
    "tc_pvalloc",
    "tc_new",
    "tc_new_nothrow",
    "tc_new_aligned",
    "tc_new_aligned_nothrow",
    "tc_newarray",
    "tc_newarray_nothrow",
    "tc_newarray_aligned",
    "tc_newarray_aligned_nothrow",
    "_ZN8tcmalloc*",
    "_ZN10MallocHook*",
    NULL,
};
static const char *const prefixes[] = {"", "je_", "_rjem_", "_rjem_je_", NULL};

/* The name's first n bytes. */
static bool is_one_of(const char *const *names, const char *name, size_t n)
{
    for (; *names; names++) {
        size_t n_wanted = strlen(*names);
        bool is_prefix = (*names)[n_wanted - 1] == '*';
        n_wanted -= is_prefix;
        if ((is_prefix ? n >= n_wanted : n == n_wanted) && !memcmp(*names, name, n_wanted))
            return true;
    }
    return false;
}

static bool is_file_of_jemalloc(const char *path)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    return is_one_of(jemalloc_files, file, strcspn(file, "."));
}

/* A compiler puts `.part.0` and the like behind a function's name. */
static bool is_allocator(const struct dp_inside_function *function)
{
    const char *name = function->name, *file = function->file;
    size_t n = strcspn(name, ".");
    if (is_one_of(cxx_names, name, n) || is_one_of(tcmalloc_names, name, n))
        return true;
    if (file && !is_file_of_jemalloc(file))
        return false;
    for (const char *const *prefix = prefixes; *prefix; prefix++) {
        size_t skip = strlen(*prefix);
        if (n > skip && !memcmp(name, *prefix, skip) &&
            (is_one_of(jemalloc_api, name + skip, n - skip) ||
             (skip && is_one_of(jemalloc_internal, name + skip, n - skip))))
            return true;
    }
    return file && is_one_of(jemalloc_local, name, n);
}

static void take_address(uintptr_t *to, const char *name, const char *prefix, const char *rest, uintptr_t address)
{
    size_t n = strlen(prefix);
    if (!strncmp(name, prefix, n) && !strcmp(name + n, rest))
        *to = address;
}

static void take_function(void *ctx, const struct dp_inside_function *function)
{
    struct found *found = ctx;
    const char *name = function->name;
    for (size_t i = 0; i < N_PREFIXES; i++) {
        struct dp_inside_jemalloc *jemalloc = &found->jemalloc[i];
        take_address(&jemalloc->mallctl, name, jemalloc->prefix, "mallctl", function->start);
        take_address(&jemalloc->mallocx, name, jemalloc->prefix, "mallocx", function->start);
        take_address(&jemalloc->realloc, name, jemalloc->prefix, "realloc", function->start);
        take_address(&jemalloc->sdallocx, name, jemalloc->prefix, "sdallocx", function->start);
        take_address(&jemalloc->free, name, jemalloc->prefix, "free", function->start);
        take_address(&jemalloc->nallocx, name, jemalloc->prefix, "nallocx", function->start);
    }
    found->is_jemalloc |= strstr(name, "je_hook_install") || strstr(name, "mallctlbymib");
    found->is_tcmalloc |= !strncmp(name, "_ZN8tcmalloc", 12) || !strcmp(name, "MallocHook_RemoveNewHook");
    take_address(&found->tcmalloc.add_new_hook, name, "MallocHook_", "AddNewHook", function->start);
    take_address(&found->tcmalloc.add_delete_hook, name, "MallocHook_", "AddDeleteHook", function->start);
    take_address(&found->tcmalloc.malloc, name, "tc_", "malloc", function->start);
    take_address(&found->tcmalloc.free, name, "tc_", "free", function->start);
    take_address(&found->tcmalloc.nallocx, name, "tc_", "nallocx", function->start);
    if (function->end > function->start && code.n < MOST_CODE && is_allocator(function))
        code.ranges[code.n++] = (struct deltaprof_code){function->start, function->end};
}

/* Sorts the ranges in place, without memory of its own. */
static void sort_code(void)
{
    unsigned n = 0;
    for (unsigned gap = MOST_CODE / 2; gap; gap /= 2)
        for (unsigned i = gap; i < code.n; i++) {
            struct deltaprof_code range = code.ranges[i];
            unsigned to = i;
            for (; to >= gap && code.ranges[to - gap].start > range.start; to -= gap)
                code.ranges[to] = code.ranges[to - gap];
            code.ranges[to] = range;
        }
    for (unsigned i = 0; i < code.n; i++)
        if (n && code.ranges[i].start <= code.ranges[n - 1].end) {
            if (code.ranges[i].end > code.ranges[n - 1].end)
                code.ranges[n - 1].end = code.ranges[i].end;
        } else {
            code.ranges[n++] = code.ranges[i];
        }
    code.n = n;
}

/* Returns whether it was attached. */
static bool report(const char *prefix, const char *what, int err)
{
    char line[160];
    snprintf(line, sizeof line, "%s inside the executable (%smalloc): %s", what, prefix,
             err ? "deltaprof knows no hooks of this version, its allocations are not seen" : "attached to its hooks");
    if (err)
        deltaprof_say(line);
    else
        deltaprof_say_info(line);
    return !err;
}

void dp_inside_attach(void)
{
    static struct found found = {.jemalloc = {{.prefix = ""}, {.prefix = "je_"}, {.prefix = "_rjem_"}}};
    static const char *const entries[] = {"mallctl", "je_mallctl", "_rjem_mallctl", "MallocHook_AddNewHook", NULL};
    if (!deltaprof_inside_wanted())
        return;
    dp_inside_each(entries, take_function, &found);
    sort_code();
    bool attached = false;
    for (size_t i = 0; i < N_PREFIXES; i++)
        if (found.is_jemalloc && found.jemalloc[i].mallctl)
            attached |= report(found.jemalloc[i].prefix, "jemalloc", dp_inside_jemalloc(&found.jemalloc[i]));
    if (found.is_tcmalloc && found.tcmalloc.add_new_hook)
        attached |= report("tc_", "tcmalloc", dp_inside_tcmalloc(&found.tcmalloc));
    if (!attached)
        code.n = 0; /* mappings of these allocators then count as the program's */
}

bool dp_inside_owns(uintptr_t pc)
{
    for (unsigned i = 0; i < code.n && code.ranges[i].start < pc; i++)
        if (pc <= code.ranges[i].end) /* a call may be the last instruction */
            return true;
    return false;
}

/*
 * The library's threads may be created here as in a hook of malloc (dp_edge): the allocator holds no lock, and the
 * program's code called it.
 */
void dp_inside_due(const void *ptr, size_t n, const struct deltaprof_site *site)
{
    struct deltaprof_site caller = *site;
    caller.pc = deltaprof_alloc_sampled_outside(0, ptr, n, site, code.ranges, code.n);
    if (caller.pc)
        dp_edge(&caller);
}
