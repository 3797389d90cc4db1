/* SPDX-License-Identifier: MIT */
/*
 * host/wall/calls.c - the state of a thread that is off the processor in a system call. sleep: the call waits for time,
 * for a signal or for a child. lock: it waits for another thread or for the owner of a file's lock. io: all other
 * calls. They transfer data, wait until data can be transferred, or may wait for a disk, as open does.
 *
 * poll and select without a descriptor are sleep, because programs sleep with them. In epoll_wait, accept, and poll and
 * select of several descriptors threads wait for work: idle io. A poll of one descriptor is taken as a wait for an
 * answer, which is not idle.
 */
#include "host/wall/calls.h"

#include <fcntl.h>
#include <sys/syscall.h>

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

static bool locks_file(uint64_t command)
{
    return command == F_SETLKW || command == F_OFD_SETLKW;
}

enum dp_wall_state dp_wall_state_of_call(long number, const uint64_t *arguments)
{
    switch (number) {
    case -1:
        return DP_WALL_FAULT;
    case SYS_futex:
    case SYS_futex_waitv:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_flock:
        return DP_WALL_LOCK;
    case SYS_fcntl:
        return locks_file(arguments[1]) ? DP_WALL_LOCK : DP_WALL_IO;
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_rt_sigsuspend:
    case SYS_rt_sigtimedwait:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_sched_yield:
#ifdef SYS_pause
    case SYS_pause:
#endif
        return DP_WALL_SLEEP;
    case SYS_ppoll:
#ifdef SYS_poll
    case SYS_poll:
#endif
        return !arguments[1] ? DP_WALL_SLEEP : arguments[1] == 1 ? DP_WALL_IO : DP_WALL_IO_IDLE;
    case SYS_pselect6:
#ifdef SYS_select
    case SYS_select:
#endif
        return arguments[0] ? DP_WALL_IO_IDLE : DP_WALL_SLEEP;
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_accept:
    case SYS_accept4:
        return DP_WALL_IO_IDLE;
    default:
        return DP_WALL_IO;
    }
}
