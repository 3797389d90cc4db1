/* SPDX-License-Identifier: MIT */
/*
 * host/agent/spawn.c - creates the profiler's threads with all signals blocked. A thread inherits its creator's mask,
 * so signals are blocked around the creation: no signal sent to the process runs a handler of the host on a stack of
 * the profiler.
 *
 * glibc places a thread's copy of all thread-local variables (TLS) on its stack. A program may have more of them than
 * the profiler's stack is large. So the stack is larger by the size of the TLS at init. It is not measured later:
 * dl_iterate_phdr takes a lock of the loader, which may be held for ever in a forked child. glibc itself reserves space
 * for the TLS of files that dlopen loads later. If pthread_create still refuses the size, twice the size is tried.
 */
#include "host/agent/spawn.h"

#include "base/atomic.h"
#include "base/mem.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <signal.h>

enum { TRIES = 4 };

static _Atomic size_t tls_bytes; /* relaxed: set at init */

static int add_tls_bytes(struct dl_phdr_info *object, size_t n_bytes, void *sum)
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
    dl_iterate_phdr(add_tls_bytes, &n_bytes);
    dp_store_relaxed(&tls_bytes, n_bytes);
}

size_t dp_agent_spawn_bytes(size_t stack_bytes)
{
    return dp_page_ceil(stack_bytes + dp_load_relaxed(&tls_bytes));
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
