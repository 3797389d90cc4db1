/* SPDX-License-Identifier: MIT */
/*
 * map.c - hooks of mmap, munmap, mremap, mprotect, brk and sbrk, which report mappings if the key `mmap` is on.
 *
 * malloc and the loader map memory by functions inside libc and ld.so, which are not hooked. So the hooks see only the
 * calls of the program and of another allocator. Calls of the allocator are skipped, because free and
 * malloc_usable_size may map memory too. A range that a call unmaps is reported before and after the call: another
 * thread may get it at once, and a call that fails changes nothing.
 */
#include "hook.h"
#include "inside.h"

#include <errno.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

/* Headers may rename mmap to mmap64, and declare mremap with `...`. */
DP_HOOK void *dp_mmap(void *wanted, size_t n, int protection, int flags, int fd, off_t offset) __asm__("mmap");
DP_HOOK void *dp_mmap64(void *wanted, size_t n, int protection, int flags, int fd, off_t offset) __asm__("mmap64");
DP_HOOK void *dp_mremap(void *old, size_t n_old, size_t n, int flags, void *wanted) __asm__("mremap");

#define MREMAP_KEEPS 4 /* MREMAP_DONTUNMAP, which headers before Linux 5.7 lack */

static inline bool is_wanted(void)
{
    return __builtin_expect(__atomic_load_n(&deltaprof_maps_wanted, __ATOMIC_RELAXED), 0);
}

/* Whether the code at a return address is an allocator's. */
static bool is_allocator(uintptr_t pc)
{
    return dp_within(&dp_allocator, pc) || dp_inside_owns(pc);
}

static bool is_range(const void *start, size_t n)
{
    return n && (uintptr_t)start % getauxval(AT_PAGESZ) == 0;
}

/* The errno of the real call is kept. */
static void unmap_end(uint32_t mark, const void *start, size_t n, bool done)
{
    int saved = errno;
    deltaprof_unmap_end(mark, start, n, done);
    errno = saved;
}

static unsigned what_is(int protection, int flags)
{
    return (protection == PROT_NONE ? DELTAPROF_MAP_RESERVED : 0u) | (flags & MAP_ANONYMOUS ? 0u : DELTAPROF_MAP_FILE);
}

#define MAP(name)                                                                                    \
    DP_DUE void *name##_due(void *wanted, size_t n, int protection, int flags, int fd, off_t offset) \
    {                                                                                                \
        struct deltaprof_site site = DELTAPROF_SITE_CALLER();                                        \
        bool replaces = flags & MAP_FIXED && is_range(wanted, n);                                    \
        uint32_t mark = replaces ? deltaprof_unmap_begin(wanted, n) : 0;                             \
        void *start = DP_REAL(name)(wanted, n, protection, flags, fd, offset);                       \
        if (replaces)                                                                                \
            unmap_end(mark, wanted, n, start != MAP_FAILED);                                         \
        if (start != MAP_FAILED && !is_allocator(site.pc))                                           \
            deltaprof_mapped(start, n, what_is(protection, flags), &site);                           \
        return start;                                                                                \
    }                                                                                                \
    void *dp_##name(void *wanted, size_t n, int protection, int flags, int fd, off_t offset)         \
    {                                                                                                \
        if (is_wanted())                                                                             \
            return name##_due(wanted, n, protection, flags, fd, offset);                             \
        return DP_REAL(name)(wanted, n, protection, flags, fd, offset);                              \
    }
MAP(mmap)
MAP(mmap64)

DP_HOOK int munmap(void *start, size_t n)
{
    if (!is_wanted() || !is_range(start, n))
        return DP_REAL(munmap)(start, n);
    uint32_t mark = deltaprof_unmap_begin(start, n);
    int failed = DP_REAL(munmap)(start, n);
    unmap_end(mark, start, n, !failed);
    return failed;
}

DP_DUE void *mremap_due(void *old, size_t n_old, size_t n, int flags, void *wanted)
{
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    bool moves = is_range(old, n_old) && n, replaces = moves && flags & MREMAP_FIXED && is_range(wanted, n);
    uint32_t mark = moves ? deltaprof_unmap_begin(old, n_old) : 0;
    uint32_t mark_replaced = replaces ? deltaprof_unmap_begin(wanted, n) : 0;
    void *start = DP_REAL(mremap)(old, n_old, n, flags, wanted);
    bool done = start != MAP_FAILED;
    if (moves)
        unmap_end(mark, old, n_old, done && !(flags & MREMAP_KEEPS));
    if (replaces)
        unmap_end(mark_replaced, wanted, n, done);
    if (done)
        deltaprof_mapped(start, n, 0, &site);
    return start;
}

void *dp_mremap(void *old, size_t n_old, size_t n, int flags, void *wanted)
{
    if (is_wanted())
        return mremap_due(old, n_old, n, flags, wanted);
    return DP_REAL(mremap)(old, n_old, n, flags, wanted);
}

DP_DUE int mprotect_due(void *start, size_t n, int protection)
{
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    int failed = DP_REAL(mprotect)(start, n, protection);
    if (!failed && n)
        deltaprof_map_accessible(start, n, &site);
    return failed;
}

DP_HOOK int mprotect(void *start, size_t n, int protection)
{
    if (is_wanted() && protection != PROT_NONE)
        return mprotect_due(start, n, protection);
    return DP_REAL(mprotect)(start, n, protection);
}

/* Reports a move of the end of the data segment from `before` to its present place. */
static void moved_break(char *before, char *now, const struct deltaprof_site *site)
{
    if (now > before)
        deltaprof_mapped(before, (size_t)(now - before), 0, site);
    else if (now < before)
        deltaprof_unmapped(now, (size_t)(before - now));
}

DP_DUE void *sbrk_due(intptr_t n)
{
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    char *before = DP_REAL(sbrk)(n);
    if (before != (void *)-1 && !is_allocator(site.pc))
        moved_break(before, before + n, &site);
    return before;
}

DP_HOOK void *sbrk(intptr_t n)
{
    return is_wanted() && n ? sbrk_due(n) : DP_REAL(sbrk)(n);
}

DP_DUE int brk_due(void *end)
{
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    char *before = DP_REAL(sbrk)(0);
    int failed = DP_REAL(brk)(end);
    if (!failed)
        moved_break(before, end, &site);
    return failed;
}

DP_HOOK int brk(void *end)
{
    return is_wanted() ? brk_due(end) : DP_REAL(brk)(end);
}
