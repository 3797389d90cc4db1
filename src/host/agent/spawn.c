/* SPDX-License-Identifier: MIT */
/*
 * host/agent/spawn.c - creates the profiler's threads with all signals blocked. A thread inherits its creator's mask,
 * so signals are blocked around the creation: no handler of the host ever runs on a stack of the profiler.
 *
 * glibc puts the thread's copy of all thread-local variables onto its stack. They may be larger than the stack that the
 * profiler needs: then pthread_create fails, or leaves too little of it. So their size at the start is added: later it
 * could not be asked for, because dl_iterate_phdr takes a lock of the loader, which in a forked child may be held for
 * ever. What a later dlopen adds was reserved by glibc; a stack that is refused all the same is tried with twice the
 * size.
 */
#include "host/agent/spawn.h"

#include "base/atomic.h"
#include "base/mem.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <signal.h>

enum { TRIES = 4 };

static _Atomic size_t variables_bytes; /* relaxed: set at the start */

static int add_variables(struct dl_phdr_info *object, size_t n_bytes, void *sum)
{
    (void)n_bytes;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_TLS)
            *(size_t *)sum += object->dlpi_phdr[i].p_memsz + object->dlpi_phdr[i].p_align;
    return 0;
}

void dp_agent_spawn_init(void)
{
    size_t n_bytes = 0;
    dl_iterate_phdr(add_variables, &n_bytes);
    dp_store_relaxed(&variables_bytes, n_bytes);
}

size_t dp_agent_spawn_bytes(size_t stack_bytes)
{
    return dp_page_ceil(stack_bytes + dp_load_relaxed(&variables_bytes));
}

int dp_agent_spawn(pthread_t *thread, size_t stack_bytes, void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    pthread_t detached;
    sigset_t all, before;
    int err = pthread_attr_init(&attr);
    if (err)
        return -err;
    if (!thread)
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    stack_bytes = dp_agent_spawn_bytes(stack_bytes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = EINVAL;
    for (int i = 0; i < TRIES && err == EINVAL; i++, stack_bytes *= 2) {
        pthread_attr_setstacksize(&attr, stack_bytes);
        err = pthread_create(thread ? thread : &detached, &attr, run, arg);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return -err;
}
