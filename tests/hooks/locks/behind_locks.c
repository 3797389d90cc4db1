/* SPDX-License-Identifier: MIT */
/*
 * behind_locks.c - interposes functions that the profiler hooks, too, and forwards them. At exit it prints how often
 * each was called, so that a test sees whether calls came through it.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

static unsigned n_lock, n_read, n_sigaction;

#define FORWARD(name, count, parameters, arguments)            \
    __attribute__((visibility("default"))) int name parameters \
    {                                                          \
        static __typeof__(&name) next;                         \
        if (!next)                                             \
            next = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
        __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);       \
        return next arguments;                                 \
    }
FORWARD(pthread_mutex_lock, n_lock, (pthread_mutex_t * m), (m))
FORWARD(pthread_rwlock_rdlock, n_read, (pthread_rwlock_t * l), (l))
FORWARD(sigaction, n_sigaction, (int sig, const struct sigaction *act, struct sigaction *old), (sig, act, old))

__attribute__((destructor)) static void tell(void)
{
    fprintf(stderr, "behind: %u mutex, %u rwlock, %u sigaction\n", n_lock, n_read, n_sigaction);
}
