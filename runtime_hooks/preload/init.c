/* SPDX-License-Identifier: MIT */
/*
 * init.c - the constructor: finds the real functions, says what we see, and starts the profiler if a preload brought
 * us.
 *
 * Linked into a program we wait for its deltaprof_start. In a process with a sanitizer we stay passive: its
 * interceptors and ours would each take the other's calls for the program's.
 */
#include "hook.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

struct dp_range dp_libc, dp_loader;
bool dp_sees_malloc;

static void range_of(const void *address, struct dp_range *range)
{
    struct dl_find_object object;
    if (_dl_find_object((void *)address, &object) == 0) {
        range->start = (uintptr_t)object.dlfo_map_start;
        range->end = (uintptr_t)object.dlfo_map_end;
    }
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Does some word of LD_PRELOAD name this file? */
static bool named_by_environment(const char *file)
{
    const char *words = getenv("LD_PRELOAD");
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

/* Does map name us as something that it needs? Then we were linked. */
static bool needs(const struct link_map *map, const char *soname)
{
    const char *strings = NULL;
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_STRTAB)
            strings = (const char *)d->d_un.d_ptr;
    /* The vdso's table is not relocated; it needs nobody. */
    for (const ElfW(Dyn) *d = map->l_ld; (uintptr_t)strings > map->l_addr && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_NEEDED && strcmp(base_name(strings + d->d_un.d_val), soname) == 0)
            return true;
    return false;
}

/*
 * LD_PRELOAD says so; or (/etc/ld.so.preload, ld.so --preload) we were loaded ahead of libc and nobody asked for us.
 * Walking the loader's list is safe here: constructors run under its lock.
 */
static bool preloaded(void)
{
    struct dl_find_object self, libc;
    if (_dl_find_object((void *)preloaded, &self) != 0 || self.dlfo_link_map->l_name[0] == '\0')
        return false; /* part of the program itself */
    const char *file = base_name(self.dlfo_link_map->l_name);
    if (named_by_environment(file))
        return true;
    if (_dl_find_object((void *)DP_REAL(_exit), &libc) != 0)
        return false;
    bool ahead = false;
    for (struct link_map *map = self.dlfo_link_map; map; map = map->l_next)
        ahead |= map == libc.dlfo_link_map;
    for (struct link_map *map = _r_debug.r_map; ahead && map; map = map->l_next)
        ahead = !needs(map, DP_SONAME);
    return ahead;
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

__attribute__((constructor)) static void init(void)
{
    dp_real_resolve();
    dp_real_resolve_cxx();
    if (sanitized())
        return;
    struct dp_range self = {0};
    range_of((const void *)DP_REAL(_exit), &dp_libc);
    range_of((const void *)_dl_find_object, &dp_loader);
    range_of((const void *)init, &self);
    dp_sees_malloc = dp_within(&self, (uintptr_t)malloc); /* whose malloc the whole process calls */
    at_quick_exit(deltaprof_deliver);                     /* the first registered runs last */
    deltaprof_announce(DELTAPROF_SEES_MALLOC | DELTAPROF_SEES_LOCKS);
    if (preloaded())
        deltaprof_start_preloaded();
}
