/* SPDX-License-Identifier: MIT */
/*
 * base/quiet.c - blocks SIGPIPE and SIGXFSZ, and removes a pending one before it unblocks them. A signal that the host
 * had blocked is left as it is, pending or not. The kernel raises these signals only in the writing thread. It makes
 * the system call directly, because the libc function sigtimedwait is a cancellation point.
 */
#include "base/quiet.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const int quiet[] = {SIGPIPE, SIGXFSZ};
enum { N_QUIET = sizeof quiet / sizeof *quiet };

void dp_quiet_begin(sigset_t *before)
{
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < N_QUIET; i++)
        sigaddset(&set, quiet[i]);
    pthread_sigmask(SIG_BLOCK, &set, before);
}

void dp_quiet_end(const sigset_t *before)
{
    static const struct timespec now = {0, 0};
    int saved = errno;
    for (int i = 0; i < N_QUIET; i++) {
        uint64_t one = (uint64_t)1 << (quiet[i] - 1);
        if (!sigismember(before, quiet[i]))
            syscall(SYS_rt_sigtimedwait, &one, NULL, &now, sizeof one);
    }
    pthread_sigmask(SIG_SETMASK, before, NULL);
    errno = saved;
}
