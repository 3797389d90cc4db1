/* SPDX-License-Identifier: MIT */
/*
 * host/agent/spawn.c - creates the profiler's threads with all signals blocked. A thread inherits its creator's mask,
 * so signals are blocked around the creation: no handler of the host ever runs on a stack of the profiler.
 */
#include "host/agent/spawn.h"

#include <signal.h>

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
    pthread_attr_setstacksize(&attr, stack_bytes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(thread ? thread : &detached, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return -err;
}
