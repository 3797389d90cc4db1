/* SPDX-License-Identifier: MIT */
/*
 * record/reach.c - bounds of stacks, without asking pthread_getattr_np, which allocates and locks.
 *
 * The top of a thread's own stack is known for free: glibc puts the thread's control block at the top of every stack
 * that it makes or is given. Only the first thread's lies elsewhere, perhaps right above something that the program
 * mapped; but its stack ends at __libc_stack_end, and the kernel keeps a gap below it. The bottom is learned: the first
 * walk that starts lower than any before asks the kernel for the pages in between, once; what lies between a live stack
 * pointer and the top stays mapped as long as the thread does. A stack pointer that no unbroken run of pages joins to
 * the top, or that lies further from it than FAR_BYTES, is on another stack (a fiber, a signal stack, a raw clone):
 * there every page is asked for anew in each walk, except the one that the thread is standing on.
 *
 * rt_sigprocmask with a `how` that does not exist reads its set, says EFAULT where it cannot, and else EINVAL; it never
 * changes anything, and no sandbox forbids it. FUTEX_CMP_REQUEUE of nobody to nobody compares a word, and nothing else.
 */
#include "record/reach.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_stack_end __attribute__((weak));

enum { PAGE = 4096, FAR_BYTES = 8 << 20, PROBES_MAX = 256 };

bool dp_reach_probe(uintptr_t address)
{
    int saved = errno;
    bool there = syscall(SYS_rt_sigprocmask, -1, address & ~(uintptr_t)7, NULL, 8) < 0 && errno == EINVAL;
    errno = saved;
    return there;
}

int dp_reach_compare(uintptr_t address, uint32_t expected)
{
    static uint32_t nobody;
    int saved = errno;
    long rc = syscall(SYS_futex, address, FUTEX_CMP_REQUEUE_PRIVATE, 0, 0, &nobody, expected);
    int same = rc >= 0 ? 1 : errno == EAGAIN ? 0 : -EFAULT;
    errno = saved;
    return same;
}

static uintptr_t first_thread; /* its pthread_self(); 0: not known */

void dp_reach_init(void)
{
    if (syscall(SYS_gettid) == getpid())
        first_thread = (uintptr_t)pthread_self();
}

/* The top of the calling thread's own stack; 0: sp is too far below it to be on it. */
static uintptr_t top_above(uintptr_t sp)
{
    uintptr_t top = (uintptr_t)pthread_self();
    if (first_thread ? top == first_thread : syscall(SYS_gettid) == getpid())
        top = &__libc_stack_end ? (uintptr_t)__libc_stack_end & ~(uintptr_t)7 : 0;
    return top - sp - 1 < FAR_BYTES ? top : 0;
}

void dp_reach_begin_at(struct dp_reach *reach, struct dp_own_stack *own, uintptr_t sp)
{
    uintptr_t page = sp & ~(uintptr_t)(PAGE - 1);
    reach->lo = page;
    reach->hi = page + PAGE;
    uintptr_t top = top_above(sp);
    if (!top)
        return;
    uintptr_t joined = own->hi == top ? own->lo : top;
    for (uintptr_t at = page + PAGE; at < joined; at += PAGE)
        if (!dp_reach_probe(at))
            return;
    *own = (struct dp_own_stack){page, top};
    reach->lo = own->lo;
    reach->hi = own->hi;
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
