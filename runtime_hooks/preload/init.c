/* SPDX-License-Identifier: MIT */
/*
 * init.c - the constructor: finds the real functions, tells the library which events are hooked, and starts the
 * profiler if the object came by a preload.
 *
 * If the object is linked into a program, it waits for deltaprof_start. In a process with a sanitizer the hooks stay
 * passive: the sanitizer's interceptors and these hooks would each take the other's calls for the program's.
 */
#include "hook.h"
#include "inside.h"
#include "libc.h"
#include "lookup.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

struct dp_range dp_libc, dp_loader, dp_allocator;

bool dp_was_preloaded;

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Whether a word of LD_PRELOAD names this file. */
static bool named_by_environment(const char *file)
{
    const char *words = secure_getenv("LD_PRELOAD");
    size_t n_file = strlen(file);
    while (words && *words) {
        size_t n = strcspn(words, ": ");
        if (n >= n_file && memcmp(words + n - n_file, file, n_file) == 0 &&
            (n == n_file || words[n - n_file - 1] == '/'))
            return true;
        words += n + (words[n] != '\0');
    }
    return false;
}

/*
 * Facts from the loader's list, in the order of loading. Read by dl_iterate_phdr, which every glibc has; constructors
 * run under the loader's lock, so this cannot deadlock.
 */
struct seen {
    struct dp_range self;
    const char *self_name; /* "": part of the program itself */
    bool ahead;            /* this object comes before libc */
    bool needed;           /* an object lists this one as needed: then it was linked */
};

static bool needs(const struct dl_phdr_info *info, const ElfW(Dyn) * dynamic, const char *soname)
{
    const char *strings = NULL;
    for (const ElfW(Dyn) *d = dynamic; d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_STRTAB)
            strings = (const char *)d->d_un.d_ptr;
    /* The vdso's table is not relocated; it needs no other object. */
    for (const ElfW(Dyn) *d = dynamic; (uintptr_t)strings > info->dlpi_addr && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_NEEDED && strcmp(base_name(strings + d->d_un.d_val), soname) == 0)
            return true;
    return false;
}

static int read_object(struct dl_phdr_info *info, size_t n_bytes, void *ctx)
{
    struct seen *seen = ctx;
    struct dp_range range = {UINTPTR_MAX, 0};
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && start < range.start)
            range.start = start;
        if (p->p_type == PT_LOAD && start + p->p_memsz > range.end)
            range.end = start + p->p_memsz;
        if (p->p_type == PT_DYNAMIC)
            seen->needed |= needs(info, (const ElfW(Dyn) *)start, DP_SONAME);
    }
    if (dp_within(&range, (uintptr_t)read_object)) {
        seen->self = range;
        seen->self_name = info->dlpi_name;
    }
    if (dp_within(&range, (uintptr_t)DP_REAL(_exit))) {
        dp_libc = range;
        seen->ahead = seen->self.end;
    } else if (dp_within(&range, (uintptr_t)DP_REAL(malloc)))
        dp_allocator = range;
    if (dp_within(&range, (uintptr_t)dp_libc_loader()->r_ldbase))
        dp_loader = range;
    return 0;
}

/*
 * Whether this object was preloaded: LD_PRELOAD names it; or (/etc/ld.so.preload, ld.so --preload) it was loaded before
 * libc and no object needs it.
 */
static bool preloaded(const struct seen *seen)
{
    if (!seen->self_name || !*seen->self_name)
        return false;
    return named_by_environment(base_name(seen->self_name)) || (seen->ahead && !seen->needed);
}

extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));
extern void __msan_init(void) __attribute__((weak));
extern void __hwasan_init(void) __attribute__((weak));
extern void __lsan_init(void) __attribute__((weak));

static bool sanitized(void)
{
    return __asan_init || __tsan_init || __msan_init || __hwasan_init || __lsan_init;
}

/* glibc's sizes. What its header adds belongs to what malloc holds. */
static size_t libc_size(size_t n, int flags)
{
    (void)flags;
    return n <= 24 ? 24 : ((n + 8 + 15) & ~(size_t)15) - 8;
}

/* The shared library whose malloc it is may tell: jemalloc and tcmalloc, or mimalloc. */
static void tell_sizes(unsigned allocator)
{
    static const char *const names[] = {"nallocx", "mi_good_size"};
    if (allocator & DELTAPROF_GIVES_PAGES)
        deltaprof_size_classes(libc_size);
    for (size_t i = 0; dp_allocator.end && i < sizeof names / sizeof *names; i++) {
        void *size_of = dp_lookup_within(names[i], dp_allocator.start, dp_allocator.end);
        if (size_of)
            deltaprof_size_classes((size_t(*)(size_t, int))size_of);
    }
    void *mallctl = dp_allocator.end ? dp_lookup_within("mallctl", dp_allocator.start, dp_allocator.end) : NULL;
    if (mallctl)
        deltaprof_jemalloc((deltaprof_mallctl_fn)mallctl);
}

/*
 * Not NULL: the program is Python. Its stacks have some native frames for each function of Python, so they may be
 * longer: a stack of 100 functions is to be whole.
 */
extern const char *Py_GetVersion(void) __attribute__((weak, visibility("default")));

__attribute__((constructor)) static void init(void)
{
    dp_real_resolve();
    dp_real_resolve_cxx();
    if (sanitized())
        return;
    struct seen seen = {0};
    dl_iterate_phdr(read_object, &seen);
    at_quick_exit(deltaprof_before_exit); /* the first registered runs last */
    dp_watch_main();
    dp_real_shorten_cxx(&seen.self);
    unsigned allocator = dp_real_allocator();
    deltaprof_gate_open(&DP_GATE, allocator);
    deltaprof_announce_hooks(DELTAPROF_HOOKS_MALLOC | DELTAPROF_HOOKS_LOCKS);
    if (preloaded(&seen) && deltaprof_start_preloaded(Py_GetVersion ? "depth=512" : NULL) == 0) {
        int64_t kept = deltaprof_guard_enter(); /* dlsym allocates, and the program did not ask for it */
        dp_was_preloaded = true;
        dp_watch_exit();
#ifndef __GLIBC__
        deltaprof_say_info("musl: no lines, no libunwind; holders that locked by a try function are not known");
#endif
        tell_sizes(allocator);
        deltaprof_python_attach();
        dp_inside_attach();
        deltaprof_guard_exit(kept);
    }
}
