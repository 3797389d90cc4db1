/* SPDX-License-Identifier: MIT */
/*
 * sink/signals.c - SIG_DFL with an errand.
 *
 * Programs ask what a signal does before they change it: Python gives SIGINT its KeyboardInterrupt only where it finds
 * SIG_DFL, a shell hands to its children what it found. So our handler is SIG_DFL in every answer to the host, and
 * stands in for it whenever the host asks for it; whatever else the host installs wins. After the errand the signal is
 * raised again with the real default, so that the wait status is what it would have been. exec and posix_spawn reset
 * handlers, so no other program inherits any of this. Not SA_ONSTACK: a signal stack is made for less than this.
 */
#include "sink/signals.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "sink/agent.h"
#include "sink/exit.h"
#include "sink/tick.h"

#include <deltaprof/hooks.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int fatal[] = {SIGINT, SIGTERM, SIGHUP};
enum { N_FATAL = sizeof fatal / sizeof *fatal };

/* What stands in for SIG_DFL, by signal; sa_handler 0: nothing. Written at init and by release only. */
static struct sigaction stand_ins[_NSIG];
static _Atomic bool released; /* relaxed: a filter that another thread installs is not awaited here */

/* By system call: the libc function may be the interposer's, which would put us back. */
static void set_default(int sig)
{
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        uint64_t mask;
    } action = {.handler = SIG_DFL};
    syscall(SYS_rt_sigaction, sig, &action, NULL, sizeof action.mask);
}

static void on_fatal(int sig)
{
    int saved = errno;
    sigset_t one;
    dp_exit_deliver(false);
    sigemptyset(&one);
    sigaddset(&one, sig);
    set_default(sig);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), sig);
    /* Still here: init of a pid namespace, which a default action does not kill. */
    sigaction(sig, &stand_ins[sig], NULL);
    dp_exit_cancelled();
    errno = saved;
}

static void on_request(int sig)
{
    int saved = errno;
    if (!dp_load_relaxed(&released) && dp_process_is_noted()) {
        int64_t kept = deltaprof_guard_enter();
        dp_log_bypass(true);
        if (dp_agent_is_running())
            dp_agent_ring();
        else
            dp_tick_last(dp_clock_ns());
        dp_log_bypass(false);
        deltaprof_guard_exit(kept);
    }
    errno = saved;
}

/* True: it stands. */
static bool install(int sig, void (*handler)(int))
{
    struct sigaction old, *ours = &stand_ins[sig];
    if (ours->sa_handler)
        return true; /* started before */
    if (sigaction(sig, NULL, &old) || old.sa_handler != SIG_DFL)
        return false;
    ours->sa_flags = SA_RESTART;
    sigemptyset(&ours->sa_mask);
    for (int i = 0; i < N_FATAL; i++)
        sigaddset(&ours->sa_mask, fatal[i]);
    ours->sa_handler = handler;
    sigaction(sig, ours, NULL);
    return true;
}

void dp_signals_init(const struct dp_config *conf)
{
    for (int i = 0; conf->signals && i < N_FATAL; i++)
        install(fatal[i], on_fatal);
    if (conf->signal && !install(conf->signal, on_request))
        dp_log(DP_LOG_ERROR, "signal=%d: the program handles it already; it asks for nothing here", conf->signal);
}

static bool is_ours(const struct sigaction *action)
{
    return action->sa_handler == on_fatal || action->sa_handler == on_request;
}

void dp_signals_release(void)
{
    struct sigaction now;
    dp_store_relaxed(&released, true);
    for (int i = 0; i < N_FATAL; i++) {
        if (!stand_ins[fatal[i]].sa_handler)
            continue;
        stand_ins[fatal[i]].sa_handler = NULL;
        /* Ours looks like SIG_DFL where sigaction is the interposer's. */
        if (sigaction(fatal[i], NULL, &now) == 0 && (now.sa_handler == SIG_DFL || is_ours(&now)))
            set_default(fatal[i]);
    }
}

int dp_signals_action(int sig, const struct sigaction *act, struct sigaction *old,
                      int (*real)(int, const struct sigaction *, struct sigaction *))
{
    if (act && sig > 0 && sig < _NSIG && act->sa_handler == SIG_DFL && stand_ins[sig].sa_handler)
        act = &stand_ins[sig];
    int err = real(sig, act, old);
    if (err == 0 && old && is_ours(old)) {
        old->sa_handler = SIG_DFL;
        old->sa_flags = 0;
        sigemptyset(&old->sa_mask);
    }
    return err;
}
