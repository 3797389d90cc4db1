/* SPDX-License-Identifier: MIT */
/*
 * host/agent/tick_signal.c - the handlers of the signal that requests profiles.
 *
 * Some programs install a handler for every signal, as Go's runtime does. Then on_shared is installed with the mask and
 * flags of that handler. It requests profiles, and calls the program's handler with the same arguments, on the same
 * stack. The word `host` has the address of the program's handler. Its two upper bits, which no address of code uses,
 * have the two flags that differ in the kernel: SA_SIGINFO and SA_RESETHAND. The kernel has the rest of the action.
 *
 *     the program set     the kernel has             `host`
 *     SIG_DFL             on_default                 0
 *     SIG_IGN             SIG_IGN                    0
 *     a handler           on_shared, its mask        the handler
 *
 * `host` is stored before on_shared is installed, and cleared after on_shared was replaced: on_shared never runs
 * without a handler to call. A child of vfork shares `host` with its parent, so it does not change it.
 */
#include "host/agent/tick_signal.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "host/agent/agent.h"
#include "host/agent/tick.h"

#include <deltaprof/thread.h>
#include <errno.h>
#include <stdint.h>

#define HAS_INFO ((uint64_t)1 << 63) /* SA_SIGINFO */
#define RESETS   ((uint64_t)1 << 62) /* SA_RESETHAND */
#define ADDRESS  (RESETS - 1)

static struct {
    int sig;
    struct sigaction replacement; /* of SIG_DFL */
    _Atomic uint64_t host;        /* relaxed: no other data depends on it */
    _Atomic bool stopped;
} request;

static void request_profiles(void)
{
    if (dp_load_relaxed(&request.stopped) || !dp_process_is_noted())
        return;
    int saved = errno;
    int64_t kept = deltaprof_guard_enter();
    dp_log_bypass(true);
    if (dp_agent_is_running())
        dp_agent_request_tick();
    else
        dp_agent_tick_last(dp_clock_ns());
    dp_log_bypass(false);
    deltaprof_guard_exit(kept);
    errno = saved;
}

static void on_default(int sig)
{
    (void)sig;
    request_profiles();
}

sighandler_t dp_agent_request_handler(void)
{
    return on_default;
}

/* Sets SIG_DFL for a handler with SA_RESETHAND, which runs once. False: another thread did so first, and runs it. */
static bool reset_handler(uint64_t host)
{
    static const struct sigaction plain = {.sa_handler = SIG_DFL};
    int saved = errno;
    bool is_first = dp_cas_relaxed(&request.host, &host, 0);
    if (is_first)
        sigaction(request.sig, &plain, NULL); /* interposed: installs the replacement */
    errno = saved;
    return is_first;
}

static void on_shared(int sig, siginfo_t *info, void *context)
{
    request_profiles();
    uint64_t host = dp_load_relaxed(&request.host);
    if (host & RESETS && !reset_handler(host))
        return;
    void (*handler)(int, siginfo_t *, void *) = (void (*)(int, siginfo_t *, void *))(uintptr_t)(host & ADDRESS);
    if (handler) /* without SA_SIGINFO it has one parameter and ignores the others */
        handler(sig, info, context);
}

void dp_agent_request_init(int sig, const struct sigaction *replacement)
{
    request.replacement = *replacement;
    request.sig = sig;
}

void dp_agent_request_stop(void)
{
    dp_store_relaxed(&request.stopped, true);
}

int dp_agent_request_signal(void)
{
    return request.sig;
}

bool dp_agent_request_is_ours(const struct sigaction *action)
{
    return action->sa_handler == on_default || action->sa_sigaction == on_shared;
}

/* The word `host` for an action of the program. */
static uint64_t pack_handler(const struct sigaction *act)
{
    return (uint64_t)(uintptr_t)act->sa_sigaction | (act->sa_flags & SA_SIGINFO ? HAS_INFO : 0) |
           (act->sa_flags & (int)SA_RESETHAND ? RESETS : 0);
}

/* Replaces a handler of this file in the kernel's action by what the program set. */
static void unpack_handler(struct sigaction *action, uint64_t host)
{
    if (action->sa_sigaction == on_shared && host) {
        action->sa_sigaction = (void (*)(int, siginfo_t *, void *))(uintptr_t)(host & ADDRESS);
        action->sa_flags &= ~SA_SIGINFO;
        action->sa_flags |= (host & HAS_INFO ? SA_SIGINFO : 0) | (host & RESETS ? (int)SA_RESETHAND : 0);
    } else if (dp_agent_request_is_ours(action)) {
        *action = (struct sigaction){.sa_handler = SIG_DFL};
    }
}

int dp_agent_request_action(const struct sigaction *act, struct sigaction *old,
                            int (*real)(int, const struct sigaction *, struct sigaction *))
{
    struct sigaction shared, was;
    uint64_t before = dp_load_relaxed(&request.host);
    bool is_own = dp_process_is_noted();
    bool handles = act && act->sa_handler != SIG_DFL && act->sa_handler != SIG_IGN && !dp_agent_request_is_ours(act);
    const struct sigaction *wanted = act && act->sa_handler == SIG_DFL ? &request.replacement : act;
    if (handles && is_own) {
        shared = *act;
        shared.sa_sigaction = on_shared;
        shared.sa_flags = (act->sa_flags | SA_SIGINFO) & ~(int)SA_RESETHAND;
        dp_store_relaxed(&request.host, pack_handler(act));
        wanted = &shared;
    }
    int err = real(request.sig, wanted, &was);
    if (err == 0 && act && is_own && wanted->sa_sigaction != on_shared)
        dp_store_relaxed(&request.host, 0);
    if (err && wanted == &shared)
        dp_store_relaxed(&request.host, before);
    if (err == 0 && old) {
        unpack_handler(&was, before);
        *old = was;
    }
    return err;
}
