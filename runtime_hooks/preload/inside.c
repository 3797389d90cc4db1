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

/* A name that ends in '*' is a prefix. */
static const char *const allocator_names[] = {
    "je_*",
    "_rjem_*",
    "tc_malloc*",
    "tc_calloc",
    "tc_realloc",
    "tc_memalign",
    "tc_posix_memalign",
    "tc_valloc",
    "tc_pvalloc",
    "tc_new",
    "tc_new_nothrow",
    "tc_new_aligned*",
    "tc_newarray*",
    "_ZN8tcmalloc*",
    "_ZN10MallocHook*",
    "_Znw*",
    "_Zna*",
    "_Z13fallback_impl*",
    "_Z7newImpl*",
    "malloc",
    "calloc",
    "realloc",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
    "mallocx",
    "rallocx",
    "xallocx",
    "imalloc*",
    "do_rallocx*",
    "irallocx_prof*",
    "iralloct*",
    "os_pages_*",
};

static bool is_match(const char *pattern, const char *name)
{
    size_t n = strlen(pattern);
    return pattern[n - 1] == '*' ? !strncmp(pattern, name, n - 1) : !strcmp(pattern, name);
}

static bool is_allocator(const char *name)
{
    for (size_t i = 0; i < sizeof allocator_names / sizeof *allocator_names; i++)
        if (is_match(allocator_names[i], name))
            return true;
    return false;
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
    }
    found->is_jemalloc |= strstr(name, "je_hook_install") || strstr(name, "mallctlbymib");
    found->is_tcmalloc |= is_match("_ZN8tcmalloc*", name) || is_match("MallocHook_RemoveNewHook", name);
    take_address(&found->tcmalloc.add_new_hook, name, "MallocHook_", "AddNewHook", function->start);
    take_address(&found->tcmalloc.add_delete_hook, name, "MallocHook_", "AddDeleteHook", function->start);
    take_address(&found->tcmalloc.malloc, name, "tc_", "malloc", function->start);
    take_address(&found->tcmalloc.free, name, "tc_", "free", function->start);
    if (function->end > function->start && code.n < MOST_CODE && is_allocator(name))
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
    if (!deltaprof_inside_wanted())
        return;
    dp_inside_each(take_function, &found);
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
