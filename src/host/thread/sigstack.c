/* SPDX-License-Identifier: MIT */
/*
 * host/thread/sigstack.c - signal stacks for threads that have none. A thread that overflowed its stack has no room for
 * the frame of a signal handler; without a signal stack the kernel kills it before the last profile can be written.
 *
 * A thread gets its stack together with its scratch block (thread.c), by the block's number, and only the first
 * N_STACKS numbers have one. The region is mapped once, by the first thread. It costs address space, and memory only
 * where a signal handler ran; it is therefore not counted in `memory`. Below each stack lies a page that is
 * inaccessible.
 *
 * If the host registers a handler with SA_ONSTACK, it runs on one of these stacks in a thread without another, with
 * STACK_BYTES of room. A program that registers such a handler manages signal stacks itself, so from then on no further
 * thread gets one (host/agent/signals.c).
 */
#include "host/thread/sigstack.h"

#include "base/atomic.h"
#include "base/mem.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { N_STACKS = DP_SIGSTACKS, STACK_BYTES = 128 << 10 /* whole pages on each kernel */ };

/* A page, and the stack above it. */
static size_t slot_bytes(void)
{
    return dp_page_bytes() + STACK_BYTES;
}

static char *_Atomic region;     /* [REGION] published by the compare-and-swap that stores it */
static _Atomic uint64_t guarded; /* a bit for each stack whose page below is inaccessible; relaxed: as `wanted` */
static _Atomic bool wanted;      /* relaxed: a thread that misses a change acts as if it had come a moment earlier */

void dp_thread_sigstack_want(bool on)
{
    dp_store_relaxed(&wanted, on);
}

bool dp_thread_sigstack_is_wanted(void)
{
    return dp_load_relaxed(&wanted);
}

bool dp_thread_sigstack_is_ours(const void *sp)
{
    uintptr_t start = (uintptr_t)dp_load_acquire(&region); /* [REGION] */
    return start && (uintptr_t)sp - start < N_STACKS * slot_bytes();
}

_Static_assert(N_STACKS <= 64, "a bit for each");

/* Makes the page below a stack inaccessible, once. False: the system call failed. */
static bool protect_page_below(unsigned slot, char *at)
{
    uint64_t bit = (uint64_t)1 << slot;
    if (dp_load_relaxed(&guarded) & bit)
        return true;
    if (syscall(SYS_mprotect, at, dp_page_bytes(), PROT_NONE))
        return false;
    dp_or_relaxed(&guarded, bit);
    return true;
}

static char *map_region(void)
{
    char *at = dp_load_acquire(&region), *none = NULL; /* [REGION] */
    if (at)
        return at;
    at = dp_mem_map_unused(N_STACKS * slot_bytes());
    if (at && !dp_cas_publish(&region, &none, at)) { /* [REGION] */
        syscall(SYS_munmap, at, N_STACKS * slot_bytes());
        at = none;
    }
    return at;
}

/* The calling thread's signal stack. By system call: a hook of the libc function hides the stacks of this file. */
static bool read_own_stack(stack_t *now)
{
    return syscall(SYS_sigaltstack, NULL, now) == 0;
}

void dp_thread_sigstack_install(unsigned slot)
{
    if (!dp_load_relaxed(&wanted) || slot >= N_STACKS)
        return;
    int saved = errno;
    stack_t now;
    char *at = read_own_stack(&now) && (now.ss_flags & SS_DISABLE) ? map_region() : NULL;
    if (at) {
        at += slot * slot_bytes();
        stack_t stack = {.ss_sp = at + dp_page_bytes(), .ss_size = STACK_BYTES};
        if (protect_page_below(slot, at))
            syscall(SYS_sigaltstack, &stack, NULL);
    }
    errno = saved;
}

bool dp_thread_sigstack_remove(void)
{
    /*
     * Without a system call, which could kill the process under a seccomp filter. If the thread has one of the stacks,
     * it stays installed: while none is wanted, no other thread gets it.
     */
    if (!dp_load_relaxed(&wanted) || !dp_load_relaxed(&region))
        return true;
    int saved = errno;
    stack_t now, none = {.ss_flags = SS_DISABLE};
    bool is_removed =
        !read_own_stack(&now) || !dp_thread_sigstack_is_ours(now.ss_sp) || syscall(SYS_sigaltstack, &none, NULL) == 0;
    errno = saved;
    return is_removed;
}
