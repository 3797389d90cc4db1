/* SPDX-License-Identifier: MIT */
/*
 * host/agent/tick_signal.c - one handler in front of the host's, for the signal that asks for profiles.
 *
 * Some hosts install a handler for every signal, as Go's runtime does. The handler here then stands in the kernel with
 * the host's mask and flags, asks for profiles, and calls the host's handler with the same arguments, on the same
 * stack. What the host asks for and what it has are told apart by one word: the address of its handler, and in the two
 * upper bits, which no address of code has, the two flags that the kernel is told differently. The rest of its action
 * is in the kernel.
 *
 *     the host has     the kernel has             `host`
 *     SIG_DFL          on_alone                   0
 *     SIG_IGN          SIG_IGN                    0
 *     a handler        on_shared, its mask        the handler
 *
 * The word is stored before on_shared is installed, and cleared after it was replaced: on_shared never runs without a
 * handler to call. A child of vfork, which shares the word with its parent, changes nothing here.
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
    struct sigaction stand_in; /* for SIG_DFL */
    _Atomic uint64_t host;     /* relaxed: one word says all */
    _Atomic bool stopped;
} request;

static void ask(void)
{
    if (dp_load_relaxed(&request.stopped) || !dp_process_is_noted())
        return;
    int saved = errno;
    int64_t kept = deltaprof_guard_enter();
    dp_log_bypass(true);
    if (dp_agent_is_running())
        dp_agent_ring();
    else
        dp_agent_tick_last(dp_clock_ns());
    dp_log_bypass(false);
    deltaprof_guard_exit(kept);
    errno = saved;
}

static void on_alone(int sig)
{
    (void)sig;
    ask();
}

sighandler_t dp_agent_request_handler(void)
{
    return on_alone;
}

/* The host's handler was wanted for one signal: this one. False: another thread got that. */
static bool reset(uint64_t host)
{
    static const struct sigaction plain = {.sa_handler = SIG_DFL};
    int saved = errno;
    bool is_first = dp_cas_relaxed(&request.host, &host, 0);
    if (is_first)
        sigaction(request.sig, &plain, NULL); /* the interposer's, which installs the stand-in */
    errno = saved;
    return is_first;
}

static void on_shared(int sig, siginfo_t *info, void *context)
{
    ask();
    uint64_t host = dp_load_relaxed(&request.host);
    if (host & RESETS && !reset(host))
        return;
    void (*handler)(int, siginfo_t *, void *) = (void (*)(int, siginfo_t *, void *))(uintptr_t)(host & ADDRESS);
    if (handler) /* without SA_SIGINFO it has one parameter, and the others do no harm */
        handler(sig, info, context);
}

void dp_agent_request_init(int sig, const struct sigaction *stand_in)
{
    request.stand_in = *stand_in;
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
    return action->sa_handler == on_alone || action->sa_sigaction == on_shared;
}

static uint64_t packed(const struct sigaction *act)
{
    return (uint64_t)(uintptr_t)act->sa_sigaction | (act->sa_flags & SA_SIGINFO ? HAS_INFO : 0) |
           (act->sa_flags & (int)SA_RESETHAND ? RESETS : 0);
}

/* What the host is told of what the kernel has. */
static void unpack(struct sigaction *action, uint64_t host)
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
    const struct sigaction *wanted = act && act->sa_handler == SIG_DFL ? &request.stand_in : act;
    if (handles && is_own) {
        shared = *act;
        shared.sa_sigaction = on_shared;
        shared.sa_flags = (act->sa_flags | SA_SIGINFO) & ~(int)SA_RESETHAND;
        dp_store_relaxed(&request.host, packed(act));
        wanted = &shared;
    }
    int err = real(request.sig, wanted, &was);
    if (err == 0 && act && is_own && wanted->sa_sigaction != on_shared)
        dp_store_relaxed(&request.host, 0);
    if (err && wanted == &shared)
        dp_store_relaxed(&request.host, before);
    if (err == 0 && old) {
        unpack(&was, before);
        *old = was;
    }
    return err;
}
