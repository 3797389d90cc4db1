/* SPDX-License-Identifier: MIT */
/*
 * inside.h - records the allocations of an allocator that was linked into the executable. The program's calls to it do
 * not come to the hooks of this object. If the allocator has hooks itself, functions of this object are installed
 * there.
 */
#pragma once

#include <deltaprof/hooks.h>

/* A function of the executable, from its symbol table: name, source file if the function is local, range of its code.
 */
struct dp_inside_function {
    const char *name, *file; /* file NULL: the function is global */
    uintptr_t start, end;
};

/*
 * Calls fn for each function that the executable defines, if one of them may be an allocator's that has hooks. Reads
 * .symtab, or .dynsym if that was stripped; allocates no memory. entries: names, ended by NULL; without .symtab, one of
 * them must be exported, else fn is not called. Context: init.
 */
void dp_inside_each(const char *const *entries, void (*fn)(void *ctx, const struct dp_inside_function *), void *ctx);

/* The functions that an allocator's hooks need; 0: not found. */
struct dp_inside_jemalloc {
    const char *prefix;
    uintptr_t mallctl, mallocx, realloc, sdallocx, free, nallocx; /* a linker leaves out those that are not used */
};
struct dp_inside_tcmalloc {
    uintptr_t add_new_hook, add_delete_hook, malloc, free, nallocx;
};

/* Install the hooks. 0; or a negative errno: that version has none. Context: init, with the thread guarded. */
int dp_inside_jemalloc(const struct dp_inside_jemalloc *);
int dp_inside_tcmalloc(const struct dp_inside_tcmalloc *);

/* Tells the library the sizes of blocks: nallocx(n, 0). 0: the allocator inside has no such function. Context: init. */
static inline void dp_inside_sizes(uintptr_t nallocx)
{
    if (nallocx)
        deltaprof_size_classes((size_t(*)(size_t, int))nallocx);
}

/*
 * An allocator inside the executable allocated n bytes at ptr, and a sample is due: records it for the caller of that
 * allocator. site: of the hook. Context: hook, in which the allocator holds no lock.
 */
void dp_inside_due(const void *ptr, size_t n, const struct deltaprof_site *site);

/* Subtracts an allocation from the thread's countdown. True: a sample is due, and dp_inside_due is called next. */
static inline __attribute__((always_inline)) bool dp_inside_counts(size_t n)
{
    int64_t rest;
    bool is_due = deltaprof_countdown_subtract(n, &rest);
    if (!is_due)
        deltaprof_countdown_restore(rest);
    return is_due;
}

/* Whether a return address lies in an allocator that was attached. Context: hook. */
bool dp_inside_owns(uintptr_t pc);

/* Looks for such allocators, installs the hooks, and logs the result. Context: init, after the start. */
void dp_inside_attach(void);
