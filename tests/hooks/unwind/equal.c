/* SPDX-License-Identifier: MIT */
/*
 * equal.c - compares the profiler's walks with libunwind's unw_step without its cache, frame by frame, at each call of
 * check().
 *
 * Built with EQUAL_BACKTRACE, for systems without libunwind, the reference is libgcc's unwinder. It does not say which
 * frame was interrupted, so addresses may differ by one. Stacks that would need libunwind are cut; they must be equal
 * up to there. It ends at code without unwind data, such as a PLT that a signal interrupted; ours must then be equal up
 * to there and go on to the end.
 *
 * usage: equal MODE SHAPES.so... (MODE auto or libunwind). Each check walks three times: with the thread's cache as it
 * is, once more, and with an empty cache. All must equal libunwind's frames. Prints the number of stacks, frames, and
 * stacks that took libunwind.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stats.h"
#include "host/objects/frames.h"
#include "host/thread/thread.h"
#include "host/unwind/stack_cache.h"
#include "host/unwind/unwind.h"

enum { DEPTH = 256 };

/* Writes the lookup addresses of the caller's frames, from site on. */
#ifdef EQUAL_BACKTRACE
#include <execinfo.h>
enum { TOLERANCE = 1 };
struct bases { /* struct dwarf_eh_bases of libgcc */
    void *of[3];
};
const void *_Unwind_Find_FDE(void *pc, struct bases *bases);

/* Whether libgcc has no unwind data for an address. */
static bool is_bare(uintptr_t pc)
{
    struct bases bases;
    return !_Unwind_Find_FDE((void *)pc, &bases);
}

static inline __attribute__((always_inline)) unsigned reference(const struct deltaprof_site *site, uintptr_t *theirs)
{
    void *found[DEPTH];
    int n = backtrace(found, DEPTH), from = 0;
    while (from < n && (uintptr_t)found[from] != site->pc)
        from++;
    for (int i = from; i < n; i++)
        theirs[i - from] = (uintptr_t)found[i] - 1;
    return (unsigned)(n - from);
}
#else
#define UNW_LOCAL_ONLY
#include <libunwind.h>
enum { TOLERANCE = 0 };
static bool is_bare(uintptr_t pc)
{
    (void)pc;
    return false;
}

static inline __attribute__((always_inline)) unsigned reference(const struct deltaprof_site *site, uintptr_t *theirs)
{
    unsigned n = 0;
    unw_context_t context;
    unw_cursor_t cursor;
    unw_getcontext(&context);
    unw_init_local(&cursor, &context);
    do {
        unw_word_t ip, sp;
        unw_get_reg(&cursor, UNW_REG_IP, &ip);
        unw_get_reg(&cursor, UNW_REG_SP, &sp);
        if (ip && (n || (sp >= site->sp && ip == site->pc)) && n < DEPTH)
            theirs[n++] = ip - (unw_is_signal_frame(&cursor) <= 0);
    } while (unw_step(&cursor) > 0);
    return n;
}
#endif

static const char *victim;
static unsigned long n_stacks, n_frames, n_foreign, n_longer, n_bad;

static void show(const char *what, const struct dp_stack *ours, const uintptr_t *theirs, unsigned n_theirs)
{
    printf("%s, %s: ours has %u frames%s, libunwind %u\n", victim, what, ours->depth, ours->cut ? ", cut" : "",
           n_theirs);
    for (unsigned i = 0; i < ours->depth || i < n_theirs; i++) {
        uintptr_t mine = i < ours->depth ? dp_frame_get(ours->frames[i])->pc : 0, other = i < n_theirs ? theirs[i] : 0;
        Dl_info info = {0};
        dladdr((void *)(other ? other : mine), &info);
        printf("   %2u %#14lx %#14lx %s (%s)\n", i, mine, other, info.dli_sname ? info.dli_sname : "?",
               info.dli_fname ? info.dli_fname : "?");
    }
}

static void compare(const char *what, const struct deltaprof_site *site, const uintptr_t *theirs, unsigned n_theirs)
{
    struct dp_stack ours;
    dp_unwind_walk(DP_KIND_HEAP, dp_thread_scratch(), site, &ours);
    bool longer = n_theirs && ours.depth > n_theirs && !ours.cut && is_bare(theirs[n_theirs - 1]);
    bool same = (ours.depth == n_theirs || longer || (TOLERANCE && ours.cut && dp_unwind_wants_module())) &&
                ours.hash == dp_stack_hash(ours.frames, ours.depth);
    n_longer += longer;
    for (unsigned i = 0; same && i < (longer ? n_theirs : ours.depth); i++)
        same = dp_frame_get(ours.frames[i])->pc - theirs[i] <= TOLERANCE;
    if (!same && n_bad++ < 5)
        show(what, &ours, theirs, n_theirs);
    struct dp_stack_cache *cache = dp_thread_scratch();
    n_foreign += ours.frames == cache->others;
    n_stacks++;
    n_frames += ours.depth;
}

static __attribute__((noinline)) void check(const char *what)
{
    int64_t kept = deltaprof_guard_enter();
    bool held = dp_thread_borrow();
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    uintptr_t theirs[DEPTH];
    unsigned n = reference(&site, theirs);
    compare(what, &site, theirs, n);
    compare(what, &site, theirs, n);
    struct dp_stack_cache *cache = dp_thread_scratch();
    dp_stack_cache_clear(cache);
    compare(what, &site, theirs, n);
    dp_thread_return(held);
    deltaprof_guard_exit(kept);
}

int main(int argc, char **argv)
{
    bool all = argc > 1 && !strcmp(argv[1], "libunwind");
    int ticks = getenv("TICKS") ? atoi(getenv("TICKS")) : 100;
    if (dp_frames_init(16 << 20) || dp_unwind_init(all ? DP_UNWIND_LIBUNWIND : DP_UNWIND_AUTO, DEPTH, 1 << 20) ||
        dp_thread_init(dp_unwind_scratch_bytes(), 4 << 20))
        return 2;
#ifndef EQUAL_BACKTRACE
    if (dp_unwind_load_module())
        return 2;
    unw_set_caching_policy(unw_local_addr_space, UNW_CACHE_NONE);
#endif
    for (int i = 2; i < argc; i++) {
        void *shapes = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (!shapes) {
            printf("%s\n", dlerror());
            return 2;
        }
        void (*run)(void (*)(const char *), int) = (void (*)(void (*)(const char *), int))dlsym(shapes, "run");
        victim = strrchr(argv[i], '/') ? strrchr(argv[i], '/') + 1 : argv[i];
        run(check, ticks);
        dp_objects_unload_begin();
        dlclose(shapes);
        dp_objects_unload_end();
    }
    printf("%lu stacks, %lu frames, %lu stacks took libunwind, %lu longer, %lu cut, %lu wrong\n", n_stacks, n_frames,
           n_foreign, n_longer, (unsigned long)dp_stats_read(DP_STAT_STACKS_CUT), n_bad);
    return n_bad ? 1 : 0;
}
