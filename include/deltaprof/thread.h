/* SPDX-License-Identifier: MIT */
/*
 * thread.h - the state of the calling thread that events use: its countdown, its guard, and the site where a sample's
 * stack begins.
 *
 * Each thread has a word `countdown`, the number of bytes to the next sample. An event subtracts its size; while
 * something is left nothing else happens. While a call may enter another hook, the thread is guarded: countdown is 0,
 * and the word `guard` has the stack pointer of the hook. Every nested event is then due, and the library ignores it:
 * each event counts once. If an event comes from a place on the stack that a nested event cannot have, or if too many
 * events were ignored, the hook that guarded is gone (a fiber left this thread in the middle of malloc, and goes on in
 * another): the library ends the guard. All zeros are a valid start: the first event of a thread is due at once, and
 * sets the thread up.
 *
 * Context: as of hooks.h.
 */
#pragma once

#include <deltaprof/deltaprof.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- countdown --------------------------------------------------------------------------------------------------- */

/* A thread's state: the countdown and the rwlocks, and fields that only the library uses. All zero is valid. */
struct deltaprof_thread {
    int64_t countdown; /* bytes to the next sample, at least 1; 0: see guard */
    uintptr_t guard;   /* where countdown is 0: not 0 if the thread is guarded; then the stack pointer of the hook */
    uint64_t opaque[14];
    const void *reads[2]; /* rwlocks that the thread holds for reading: locks.h */
};
/*
 * The hooks reach it by a constant offset from the thread pointer. musl has no room for that in a library that is
 * opened while the program runs. Such a library is compiled for musl with -DDELTAPROF_TLS_MODEL= and
 * -mtls-dialect=gnu2, as libdeltaprof.so is there: a call of some instructions, which allocates nothing, finds the
 * state.
 */
#ifndef DELTAPROF_TLS_MODEL
#define DELTAPROF_TLS_MODEL __attribute__((tls_model("initial-exec")))
#endif
extern DELTAPROF_API __thread struct deltaprof_thread deltaprof_thread DELTAPROF_TLS_MODEL;

/* The guard of a thread that asked for it: it ends only where the thread says so. */
#define DELTAPROF_GUARD_KEPT UINTPTR_MAX

/* Whether allocations of this thread are no events now. */
static inline bool deltaprof_is_guarded(void)
{
    return deltaprof_thread.countdown == 0 && deltaprof_thread.guard != 0;
}

/* The calling function's stack pointer, at any point after its entry. */
static inline __attribute__((always_inline)) uintptr_t deltaprof_stack_pointer(void)
{
    uintptr_t sp;
#if defined(__x86_64__)
    __asm__("mov %%rsp, %0" : "=r"(sp));
#else
    __asm__("mov %0, sp" : "=r"(sp));
#endif
    return sp;
}

/* countdown - want; true: nothing would be left. By its flags, because compilers compare once more. */
static inline __attribute__((always_inline)) bool deltaprof_countdown_ends(int64_t countdown, uint64_t want,
                                                                           int64_t *rest)
{
    uint64_t left = (uint64_t)countdown;
    bool due;
#if defined(__x86_64__)
    __asm__("sub %2, %0" : "+r"(left), "=@ccbe"(due) : "r"(want));
#else
    due = left <= want;
    left -= want;
#endif
    *rest = (int64_t)left;
    return __builtin_expect(due, 0);
}

/*
 * Subtracts n bytes from the countdown. False, the usual case: no sample. The countdown is now guarded; call the
 * allocator, then deltaprof_countdown_restore(*rest). True: a sample is due and nothing was changed; call
 * deltaprof_sample_begin. A request of 0 bytes counts as 1.
 */
static inline __attribute__((always_inline)) bool deltaprof_countdown_subtract(size_t n, int64_t *rest)
{
    if (deltaprof_countdown_ends(deltaprof_thread.countdown, (uint64_t)n + (n == 0), rest))
        return true;
    deltaprof_thread.guard = deltaprof_stack_pointer();
    __atomic_signal_fence(__ATOMIC_RELEASE); /* a handler that finds 0 finds the guard */
    deltaprof_thread.countdown = 0;
    return false;
}

static inline __attribute__((always_inline)) void deltaprof_countdown_restore(int64_t rest)
{
    deltaprof_thread.countdown = rest;
}

/*
 * For a request that the allocator serves without entering a hook: subtracts n bytes, and guards nothing, so there is
 * nothing to restore. False, the usual case: no sample. True: as above; or the thread is guarded, which
 * deltaprof_sample_begin finds.
 */
static inline __attribute__((always_inline)) bool deltaprof_countdown_count(size_t n)
{
    int64_t rest;
    if (deltaprof_countdown_ends(deltaprof_thread.countdown, (uint64_t)n + (n == 0), &rest))
        return true;
    deltaprof_thread.countdown = rest;
    return false;
}

/* ---- guard ------------------------------------------------------------------------------------------------------- */

/*
 * Between the two calls allocations of this thread are no events; frees still are. Nests: pass the value that enter
 * returned to exit.
 */
static inline int64_t deltaprof_guard_enter(void)
{
    int64_t kept = deltaprof_thread.countdown;
    if (kept == 0)
        kept = (int64_t)~deltaprof_thread.guard; /* a stack pointer, 0 or GUARD_KEPT: not above 0 */
    deltaprof_thread.guard = DELTAPROF_GUARD_KEPT;
    __atomic_signal_fence(__ATOMIC_RELEASE);
    deltaprof_thread.countdown = 0;
    return kept;
}

static inline void deltaprof_guard_exit(int64_t kept)
{
    if (kept > 0)
        deltaprof_thread.countdown = kept;
    else
        deltaprof_thread.guard = ~(uintptr_t)kept;
}

/*
 * To be called if a countdown stayed guarded because the stack was abandoned (longjmp, an exception through an
 * interposer): a new distance is drawn at the next event. The distribution of distances has no memory, so this causes
 * no bias.
 */
DELTAPROF_API void deltaprof_guard_reset(void);

/* ---- sites: where a stack begins --------------------------------------------------------------------------------- */

/*
 * The state of a calling frame: the return address into it, its stack pointer after the call returns, and its frame
 * pointer register.
 */
struct deltaprof_site {
    uintptr_t pc, sp, fp;
};

/*
 * The site of the caller of the function that uses this macro, which must not be inlined: a sample's stack begins at
 * the caller of malloc.
 */
#if defined(__x86_64__)
#define DELTAPROF_SITE_CALLER()                                                  \
    __extension__({                                                              \
        const uintptr_t *frame_ = (const uintptr_t *)__builtin_frame_address(0); \
        (struct deltaprof_site){frame_[1], (uintptr_t)(frame_ + 2), frame_[0]};  \
    })
#elif defined(__aarch64__)
/* The stack pointer before the call, which a frame record does not tell. clang's __builtin_dwarf_cfa is the record. */
#if defined(__clang__)
#define DELTAPROF_SP_CALLER() __builtin_sponentry()
#else
#define DELTAPROF_SP_CALLER() __builtin_dwarf_cfa()
#endif
#define DELTAPROF_SITE_CALLER()                                                                                \
    __extension__({                                                                                            \
        const uintptr_t *frame_ = (const uintptr_t *)__builtin_frame_address(0);                               \
        (struct deltaprof_site){(uintptr_t)__builtin_extract_return_addr((void *)__builtin_return_address(0)), \
                                (uintptr_t)DELTAPROF_SP_CALLER(), frame_[0]};                                  \
    })
#else
#error "deltaprof knows x86_64 and aarch64"
#endif

#ifdef __cplusplus
}
#endif
