/* SPDX-License-Identifier: MIT */
/*
 * host/objects/reach.c - finds the bounds of the calling thread's stack, without pthread_getattr_np, which allocates
 * and locks.
 *
 * Only memory that belongs to the thread for its whole life counts as its own stack. All else (the stack of a fiber, a
 * signal stack, a raw clone) may be unmapped at any time between two walks, even if it lies right below the thread's
 * stack: there each walk asks the kernel about each page again, except for the page that holds the stack pointer.
 *
 * A thread that pthread_create made: glibc keeps the thread's control block at the top of the stack, and in it the
 * bounds of the stack, {start, size, guard size, guard size as asked for}. Where these four words stand in the control
 * block depends on the version of glibc, so they are looked for, once: the block that they describe must end right
 * above the control block. If no place fits, or more than one, the bounds are unknown.
 *
 * musl keeps {the thread's mapping, its size, top of the stack, its size, guard size} there; the mapping is 0 if the
 * program gave the stack. Further on it has two addresses of its own that look like a top and a size, but for a stack
 * that would begin at 0. Thread-local variables may lie in another mapping then, so the stack ends at its top.
 *
 * The first thread: its stack ends at __libc_stack_end, or at the last string that the kernel put there, and it grows
 * down. The kernel places no other mapping within
 * 128 MiB below that unless it is told to, so an unbroken run of pages up to the end is the stack. A walk that starts
 * lower than all before asks the kernel about the pages in between, once.
 *
 * In both cases the part between a live stack pointer and the top stays readable as long as the thread lives. The part
 * below does not: runtimes protect pages there to detect overflows.
 *
 * How to ask the kernel: rt_sigprocmask with an invalid `how` reads its set and fails with EFAULT if it cannot, with
 * EINVAL if it can. It never changes anything, and no sandbox forbids it. FUTEX_CMP_REQUEUE of 0 waiters compares one
 * word and does nothing else. valgrind writes a line about each invalid `how`; there the comparison serves instead.
 */
#include "host/objects/reach.h"

#include "base/atomic.h"
#include "base/mem.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_stack_end __attribute__((weak));

enum { PAGE = DP_PAGE_LEAST, FAR_BYTES = 8 << 20, PROBES_MAX = 256 };

/*
 * CONTROL_BYTES: the part of the control block that is searched. ALIGNMENT: of the control block, and of the stack's
 * top; with musl thread-local variables may leave it at 8. ABOVE_MAX: the most that glibc's control block and static
 * TLS may take above its start.
 */
#ifdef __GLIBC__
enum { CONTROL_BYTES = 1760, BOUNDS_BYTES = 32, ALIGNMENT = 16 };
#else
enum { CONTROL_BYTES = 200, BOUNDS_BYTES = 40, ALIGNMENT = 8 };
#endif
enum { ABOVE_MAX = 1 << 20, STACK_MIN = 16 << 10, BOTTOM_MIN = 1 << 16 };

#define BOTTOM_UNKNOWN UINTPTR_MAX

static bool on_valgrind;

/* valgrind's own question, RUNNING_ON_VALGRIND: instructions that change nothing, and that valgrind recognizes. */
static bool is_on_valgrind(void)
{
    const volatile uint64_t request[6] = {0x1001};
    uint64_t result = 0;
#if defined(__x86_64__)
    __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
                     : "+d"(result)
                     : "a"(request)
                     : "cc", "memory", "rdi");
#else
    __asm__ volatile("mov x3, %0; mov x4, %1\n"
                     "ror x12, x12, #3; ror x12, x12, #13; ror x12, x12, #51; ror x12, x12, #61; orr x10, x10, x10\n"
                     "mov %0, x3"
                     : "+r"(result)
                     : "r"(request)
                     : "cc", "memory", "x3", "x4");
#endif
    return result != 0;
}

bool dp_reach_probe(uintptr_t address)
{
    if (__builtin_expect(on_valgrind, 0))
        return dp_reach_compare(address & ~(uintptr_t)7, 0) != -EFAULT;
    int saved = errno;
    bool there = syscall(SYS_rt_sigprocmask, -1, address & ~(uintptr_t)7, NULL, 8) < 0 && errno == EINVAL;
    errno = saved;
    return there;
}

int dp_reach_compare(uintptr_t address, uint32_t expected)
{
    static uint32_t unused; /* no thread waits for it */
    int saved = errno;
    long err = syscall(SYS_futex, address, FUTEX_CMP_REQUEUE_PRIVATE, 0, 0, &unused, expected);
    int same = err >= 0 ? 1 : errno == EAGAIN ? 0 : -EFAULT;
    errno = saved;
    return same;
}

static uintptr_t first_thread; /* its pthread_self(); 0: not known */

void dp_reach_init(void)
{
    on_valgrind = is_on_valgrind();
    if (syscall(SYS_gettid) == getpid())
        first_thread = (uintptr_t)pthread_self();
}

#ifdef __GLIBC__
/* Whether the four words at `at` say that a stack ends right above the control block `self`. */
static bool are_bounds(uintptr_t at, uintptr_t self)
{
    uintptr_t start = dp_reach_read(at), size = dp_reach_read(at + 8);
    return start && start < self && size >= STACK_MIN && start + size - self - 1 < ABOVE_MAX &&
           dp_reach_read(at + 16) < size && dp_reach_read(at + 24) < size;
}

static uintptr_t bottom_at(uintptr_t at)
{
    return dp_reach_read(at);
}

static uintptr_t top_at(uintptr_t at, uintptr_t self)
{
    (void)at;
    return self;
}
#else
/* Whether the five words at `at` describe a stack that ends below the control block `self`. */
static bool are_bounds(uintptr_t at, uintptr_t self)
{
    uintptr_t map = dp_reach_read(at), map_bytes = dp_reach_read(at + 8), top = dp_reach_read(at + 16),
              size = dp_reach_read(at + 24);
    return top % ALIGNMENT == 0 && size >= STACK_MIN && size < top && top - size >= BOTTOM_MIN &&
           dp_reach_read(at + 32) < size &&
           (map ? map <= top - size && top <= self && self - map < map_bytes : !map_bytes);
}

static uintptr_t bottom_at(uintptr_t at)
{
    return dp_reach_read(at + 16) - dp_reach_read(at + 24);
}

static uintptr_t top_at(uintptr_t at, uintptr_t self)
{
    (void)self;
    return dp_reach_read(at + 16);
}
#endif

/* Offset of the words in a control block; 0: not found yet. All threads find the same value. */
static _Atomic uint32_t place;

/* The lowest address of the calling thread's stack, which pthread_create allocated or was given. */
static uintptr_t bottom_of_thread(uintptr_t self)
{
    uint32_t found = dp_load_relaxed(&place), n_found = 0;
    if (self % ALIGNMENT || !dp_reach_probe(self) || !dp_reach_probe(self + CONTROL_BYTES - 8))
        return BOTTOM_UNKNOWN;
    if (found)
        return are_bounds(self + found, self) ? bottom_at(self + found) : BOTTOM_UNKNOWN;
    for (uint32_t at = 8; at + BOUNDS_BYTES <= CONTROL_BYTES; at += 8)
        if (are_bounds(self + at, self)) {
            found = at;
            n_found++;
        }
    if (n_found != 1)
        return BOTTOM_UNKNOWN;
    dp_store_relaxed(&place, found);
    return bottom_at(self + found);
}

static bool is_first(uintptr_t self)
{
    return first_thread ? self == first_thread : syscall(SYS_gettid) == getpid();
}

/* The top of the first thread's stack, if the calling thread is the first one and sp may lie on that stack; else 0. */
static uintptr_t top_of_first(uintptr_t self, uintptr_t sp)
{
    if (!is_first(self))
        return 0;
    uintptr_t top = (&__libc_stack_end ? (uintptr_t)__libc_stack_end : (uintptr_t)getauxval(AT_EXECFN)) & ~(uintptr_t)7;
    return top - sp - 1 < FAR_BYTES ? top : 0;
}

/*
 * The top of the calling thread's own stack, if all memory from sp up to it belongs to that stack; else 0. hi: memory
 * from here on is not known to be mapped.
 */
static uintptr_t own_top(struct dp_own_stack *own, uintptr_t sp, uintptr_t hi)
{
    uintptr_t self = (uintptr_t)pthread_self();
    /* The first thread's control block has no bounds, and other words there may look like some. */
    if (!own->bottom)
        own->bottom = is_first(self) ? BOTTOM_UNKNOWN : bottom_of_thread(self);
    if (own->bottom != BOTTOM_UNKNOWN) {
        uintptr_t end = top_at(self + dp_load_relaxed(&place), self);
        return sp - 1 - own->bottom < end - own->bottom ? end : 0;
    }
    uintptr_t top = top_of_first(self, sp);
    uintptr_t joined = own->hi == top ? own->lo : top;
    for (uintptr_t at = hi; at < joined; at += PAGE)
        if (!dp_reach_probe(at))
            return 0;
    return top;
}

void dp_reach_begin_at(struct dp_reach *reach, struct dp_own_stack *own, uintptr_t sp)
{
    /* The page of sp is in use, unless sp is the page's first word: then the stack may end there. */
    reach->lo = sp & ~(uintptr_t)(PAGE - 1);
    reach->hi = (sp + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    uintptr_t top = own_top(own, sp, reach->hi);
    if (!top)
        return;
    own->lo = reach->lo;
    own->hi = reach->hi = top;
}

bool dp_reach_move(struct dp_reach *reach, uintptr_t address)
{
    if (address % 8)
        return false;
    if (address - reach->own->lo < reach->own->hi - reach->own->lo) {
        reach->lo = reach->own->lo;
        reach->hi = reach->own->hi;
        return true;
    }
    uintptr_t page = address & ~(uintptr_t)(PAGE - 1);
    if (reach->n_probes++ >= PROBES_MAX || !dp_reach_probe(page))
        return false;
    if (page == reach->hi) {
        reach->hi += PAGE;
    } else {
        reach->lo = page;
        reach->hi = page + PAGE;
    }
    return true;
}
