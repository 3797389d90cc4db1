/* SPDX-License-Identifier: MIT */
/*
 * hook.h - the parts of every hook of the preload object: the real function, the end of the outermost hook, the unwind
 * entry.
 *
 * The states of a thread's countdown, and what leads from one to the next:
 *
 *     UNDRAWN   0, no guard                     --- the next event is due ----------------> GUARDED
 *     COUNTING  bytes left to the next sample   --- gate_count, enough are left ----------> COUNTING
 *                                               --- countdown_subtract, enough are left --> GUARDED
 *                                               --- sample_begin, too few are left -------> GUARDED
 *     GUARDED   0, and the guard's place        --- countdown_restore(rest) --------------> COUNTING
 *                                               --- sample_end draws a new distance ------> COUNTING
 *                                               --- the stack is abandoned: guard_reset --> UNDRAWN
 *
 * A real function that may call another hook runs in GUARDED, so an event inside it is due, and the library ignores it:
 * it is not counted twice. One that calls none (gate_is_leaf) runs in COUNTING, and the hook ends with a jump to it.
 *
 * What keeps the states true:
 * - tls_model("initial-exec") on deltaprof_thread (thread.h): the countdown is one load or store beside the thread
 *   register. The general model may call __tls_get_addr, which may allocate.
 * - always_inline on gate_count (interpose.h), countdown_subtract and countdown_restore (thread.h): load, subtraction
 *   and store stand in the hook.
 * - may_alias on struct dp_thread (host/thread/thread.h): the library writes the same bytes under another type.
 * - dp_fence_signal (host/heap/heap.c): the compiler keeps these stores in order for a signal handler of the same
 * thread.
 * - noinline on a sampled path (DP_DUE below): its frame takes the place of the hook's.
 * - the asm line of DP_GUARDED below: an exception or a cancellation that passes through the hook calls guard_reset.
 */
#pragma once

#include "symbols.h"

#include <deltaprof/hooks.h>

#define DP_HOOK __attribute__((visibility("default")))

/* For a large static array that few processes use: kept apart, so that the small variables lie in few pages. */
#define DP_LARGE __attribute__((section(".bss.zz_large")))

/*
 * A sampled path is a separate function that the hook *jumps* to: its frame replaces the hook's, so
 * DELTAPROF_SITE_CALLER finds the program's frame, and the usual path needs no frame pointer. The build file turns on
 * the tail calls that this needs.
 */
#define DP_DUE static __attribute__((noinline))

#ifdef DP_WRAP
#include "wrap.h"
#else
/*
 * The gate, then pointers to the real functions. Those of the C heap come first, so that an unsampled event reads one
 * cache line. Each pointer begins as a resolver that replaces it, so no call has to test it. Plain loads suffice,
 * because a resolver forwards the call of a thread that still reads it.
 */
#define DP_REAL_MEMBER(name, result, parameters, arguments, version) result(*name) parameters;
struct __attribute__((aligned(64))) dp_real {
    struct deltaprof_gate gate;
    DP_SYMBOLS_MALLOC(DP_REAL_MEMBER)
    DP_SYMBOLS_LIBC(DP_REAL_MEMBER)
    DP_SYMBOLS_CXX(DP_REAL_MEMBER)
};
extern struct dp_real dp_real __attribute__((visibility("hidden")));
#define DP_REAL(name)                                                (dp_real.name)
#define DP_GATE                                                      (dp_real.gate)
#define DP_HOOK_NAME(name)                                           name

/*
 * The operators new of the C++ library, if dp_real_shorten_cxx replaced their pointers by malloc; else NULL. The hooks
 * call them if malloc has no memory, because they call the new-handler and throw the exception.
 */
struct dp_new {
    DP_SYMBOLS_NEW_PLAIN(DP_REAL_MEMBER)
};
extern struct dp_new dp_new __attribute__((visibility("hidden")));

/* Resolves the functions of libc; allocates no memory. Any context. */
void dp_real_resolve(void);
/* Resolves operator new and delete, if they exist already. Context: init. */
void dp_real_resolve_cxx(void);

/* Looks for the next definition of a function, in the global scope and then in all loaded objects; the object that
 * defines it stays loaded. NULL: there is none. Allocates and takes the loader's lock. */
__attribute__((visibility("hidden"))) void *dp_real_look_up(const char *name);

/*
 * Makes the pointers of operator new and delete point to the real malloc and free, to save a call. Conditions: all
 * these operators are the C++ library's, and calls of each of them and of malloc and free come to the hooks first. A
 * program may replace some operators, and then the library's other operators call the replaced ones. self: this object.
 * Context: init, after both.
 */
struct dp_range;
void dp_real_shorten_cxx(const struct dp_range *self);

/*
 * Returns the properties of the real C heap, enum deltaprof_allocator. libc's heap can return blocks at page
 * boundaries, and every function of libc that frees accepts them. Another allocator may have a function that is not
 * hooked and takes a size (sdallocx); it would search for the block among the blocks of that size. libc's heap calls no
 * hook since 2.34, which removed __malloc_hook. Context: init.
 */
unsigned dp_real_allocator(void);
#endif

/*
 * To be placed before a real call in a hook that guards the thread's countdown: if an unwind passes through that call
 * (a bad_alloc, a cancelled thread, an exception out of a signal handler), the countdown is reset. It is an entry in
 * the unwind table, not an instruction.
 */
#define DP_GUARDED() __asm__ volatile(".cfi_personality 0x9b, dp_guard_personality")

/*
 * To be called before the process executes the program at path; NULL: the path is not known. A path that does not exist
 * is one step of a search in PATH. errno is kept.
 */
void dp_before_exec(const char *path);
extern bool dp_was_preloaded; /* and is on (init.c) */
/* Says a line if the program that will be executed uses musl (other_libc.c). */
void dp_say_if_musl(const char *path);

/* Called by the main thread: from then on its end is noticed, however it ends. Context: init. */
void dp_watch_main(void);

/* Registers the library's handlers of exit where the hook of __libc_start_main cannot. Context: init, after the
 * profiler started. */
void dp_watch_exit(void);

/* Looks for CPython in the process (runtime_hooks/python). Context: init, after the profiler started. */
DP_HOOK int deltaprof_python_attach(void);

/* Address ranges of libc and ld.so. They may hold one of their locks when they call a hook. */
struct dp_range {
    uintptr_t start, end;
};
extern struct dp_range dp_libc __attribute__((visibility("hidden"))), dp_loader __attribute__((visibility("hidden")));

/* The shared library whose malloc the program uses; empty: it is libc's. What it maps is not the program's. */
extern struct dp_range dp_allocator __attribute__((visibility("hidden")));

/* Address range of CPython's state; empty: there is no CPython, or it is not profiled. */
extern struct dp_range dp_python_state __attribute__((visibility("hidden")));

/* Set: dp_python_look is to be called at the end of the outermost hook of a sampled malloc. */
#ifdef DP_WRAP
static const bool dp_python_watched = false;
static inline void dp_python_look(void) {}
static inline bool dp_python_is_forking(void)
{
    return false;
}
#else
extern bool dp_python_watched __attribute__((visibility("hidden")));
__attribute__((visibility("hidden"))) void dp_python_look(void);
/* Whether a Python program forks now: then deltaprof_poll must not be called. */
__attribute__((visibility("hidden"))) bool dp_python_is_forking(void);
#endif

static inline bool dp_within(const struct dp_range *range, uintptr_t pc)
{
    return pc - range->start < range->end - range->start;
}

/*
 * The end of the outermost hook of a sampled allocation: the only hook in which the library's threads may be created,
 * and only in a process with one thread.
 */
static inline void dp_edge(const struct deltaprof_site *site)
{
    if (__builtin_expect(!deltaprof_poll_wanted && !dp_python_watched, 1) || deltaprof_is_guarded() ||
        dp_within(&dp_libc, site->pc) || dp_within(&dp_loader, site->pc))
        return;
    if (deltaprof_poll_wanted && !dp_python_is_forking())
        deltaprof_poll();
    if (dp_python_watched)
        dp_python_look();
}
