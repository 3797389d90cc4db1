/* SPDX-License-Identifier: MIT */
/*
 * host/cpu/probe.c - tells whether the signal of a CPU timer can make a system call of the program fail with EINTR.
 *
 * From 5.9 on, on aarch64 from 5.16 on, Linux looks at CPU timers when a system call has done its work and is on its
 * way out (task work); there the signal interrupts nothing. Earlier kernels send it from the clock's interrupt, which
 * may come when a thread has just entered a call that waits: that call then fails with EINTR, which the program may
 * never have met.
 *
 * If the kernel names an earlier version, the thread tries it, for a release may have later parts: under such a timer
 * it calls ppoll again and again, with a timeout of 0 so that it uses CPU time only. ppoll looks at its list, then for
 * a signal, then at the timeout, and is never restarted. So about half of the signals of an earlier kernel end a call.
 * A signal comes at each tick of the clock, which some kernels have a hundred times a second.
 */
#include "host/cpu/probe.h"

#include "base/atomic.h"
#include "base/libc.h"
#include "base/clock.h"
#include "host/cpu/handler.h"
#include "host/cpu/timers.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { SIGNALS = 10, N_POLLED = 64 };
#define CPU_NS_MAX  INT64_C(250000000)
#define WALL_NS_MAX INT64_C(2000000000)

enum { NOT_ASKED, HARMLESS, HARMFUL };
static _Atomic int answer; /* relaxed: the same in all threads */

/* Whether the kernel's release, such as "5.10.0-8-amd64", is major.minor or later. */
static bool is_from(const char *release, int64_t major, int64_t minor)
{
    int64_t have[2] = {0};
    for (int i = 0; i < 2; i++) {
        while (*release >= '0' && *release <= '9')
            have[i] = have[i] * 10 + (*release++ - '0');
        if (*release == '.')
            release++;
    }
    return have[0] > major || (have[0] == major && have[1] >= minor);
}

static bool is_known_harmless(void)
{
    struct utsname name;
    return !uname(&name) && ((!strcmp(name.machine, "x86_64") && is_from(name.release, 5, 9)) ||
                             (!strcmp(name.machine, "aarch64") && is_from(name.release, 5, 16)));
}

static bool survives_signals(void)
{
    static const struct timespec no_wait = {0};
    struct pollfd none[N_POLLED];
    for (int i = 0; i < N_POLLED; i++)
        none[i] = (struct pollfd){.fd = -1};
    int64_t cpu_end_ns = dp_cpu_own_clock_ns() + CPU_NS_MAX, wall_end_ns = dp_clock_ns() + WALL_NS_MAX;
    uint64_t end = dp_cpu_n_handled() + SIGNALS;
    while (dp_cpu_n_handled() < end && dp_cpu_own_clock_ns() < cpu_end_ns && dp_clock_ns() < wall_end_ns)
        if (ppoll(none, N_POLLED, &no_wait, NULL) < 0 && errno == EINTR)
            return false;
    return dp_cpu_n_handled() >= end; /* a kernel whose timers do not fire is of no use either */
}

static bool try_it(int sig)
{
    uint64_t value = dp_cpu_value_of(0, 0);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = sig};
    struct itimerspec each = {{0, 1000000}, {0, 1000000}};
    int id;
    memcpy(&event.sigev_value, &value, sizeof value);
    event.sigev_notify_thread_id = (int)syscall(SYS_gettid);
    if (syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, &id))
        return false;
    bool survives = !syscall(SYS_timer_settime, id, 0, &each, NULL) && survives_signals();
    syscall(SYS_timer_delete, id);
    return survives;
}

bool dp_cpu_probe_is_harmless(int sig)
{
    if (dp_load_relaxed(&answer) == NOT_ASKED) {
        int saved = errno;
        dp_store_relaxed(&answer, is_known_harmless() || try_it(sig) ? HARMLESS : HARMFUL);
        errno = saved;
    }
    return dp_load_relaxed(&answer) == HARMLESS;
}
