/* SPDX-License-Identifier: MIT */
/*
 * host/agent/signals.c - for fatal signals that the program left at SIG_DFL: delivers the last profile, then dies of
 * the signal.
 *
 * Programs ask what a signal does before they change it: Python gives SIGINT its KeyboardInterrupt only where it finds
 * SIG_DFL, a shell hands to its children what it found. So the host is told SIG_DFL where this handler is installed,
 * and when it sets SIG_DFL, this handler is set; any other handler of the host is installed as usual. exec and
 * posix_spawn reset handlers, so other programs inherit nothing. The signal that asks for profiles is shared
 * (tick_signal.c).
 *
 * SIGINT, SIGTERM and SIGHUP: after the delivery the signal is raised again with the real default, so that the wait
 * status is unchanged. Not SA_ONSTACK: the thread's own stack is intact.
 *
 * Crashes (SIGSEGV, SIGABRT, ...): the heap may be corrupt and its locks held, so only async-signal-safe calls are
 * made, by the agent too. The handler then queues the same signal again, with its si_code and address, and returns. The
 * signal is blocked until then, and the kernel delivers it in the interrupted context. So the core dump shows the
 * registers and the signal of the crash, not this handler. All other signals are blocked, because this handler switches
 * away from the signal stack that it may have begun on, and another handler would overwrite that stack. One thread
 * delivers; another that crashes meanwhile waits for it to die, so that the first crash is the one reported. A crash
 * inside the delivery itself ends the process by the first signal.
 *
 * Crashes of the profiler's own threads come here too. If a library that reads names of functions crashed, only that
 * call ends (host/symbols/shield.h). Otherwise a line says that the fault is the profiler's, and the process dies as of
 * any crash. These threads do not take a signal that was sent to the process: it stays pending for the host's threads.
 */
#include "host/agent/signals.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "host/agent/agent.h"
#include "host/agent/exit.h"
#include "host/agent/onstack.h"
#include "host/agent/tick_signal.h"
#include "host/agent/tick.h"
#include "host/cpu/shared_signal.h"
#include "host/thread/sigstack.h"
#include "host/thread/thread.h"
#include "host/symbols/shield.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static const int fatal[] = {SIGINT, SIGTERM, SIGHUP};
static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGXCPU, SIGSYS};
enum { N_FATAL = sizeof fatal / sizeof *fatal, N_CRASHES = sizeof crashes / sizeof *crashes };

/* The actions that replace SIG_DFL, and the one of each signal. Written only at init and by restore. */
enum { NO_REPLACEMENT, FOR_FATAL, FOR_CRASH, FOR_REQUEST, N_REPLACEMENTS };
static struct sigaction replacements[N_REPLACEMENTS];
static uint8_t replacement_of[_NSIG];
static _Atomic bool restored; /* relaxed: not ordered with a seccomp filter that another thread installs */

static struct {
    _Atomic int32_t by; /* the delivering thread; 0: none. relaxed: a thread only compares it with itself */
    int sig;            /* its signal */
} crash;

/* As the kernel has it. The libc function may be the interposed one, which hides this file's handlers. */
struct action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

static void set_default(int sig)
{
    struct action action = {.handler = SIG_DFL};
    syscall(SYS_rt_sigaction, sig, &action, NULL, sizeof action.mask);
}

static void raise_again(int sig)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, sig);
    set_default(sig);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), sig);
}

static void on_fatal(int sig)
{
    int saved = errno;
    if (dp_agent_exit_put_off(sig)) {
        errno = saved;
        return;
    }
    dp_agent_exit_deliver(false);
    raise_again(sig);
    /* Still alive: this is init of a pid namespace, which a default action does not kill. */
    sigaction(sig, &replacements[replacement_of[sig]], NULL);
    dp_agent_exit_cancelled();
    errno = saved;
}

static void deliver_crash(void *unused)
{
    (void)unused;
    dp_agent_exit_deliver_crash();
}

/* Returns when the last profiles are written, or will not be written. */
static void before_crash(int sig)
{
    static DP_LARGE char stack[64 << 10]; /* the thread's signal stack may be 2k */
    int32_t self = (int32_t)syscall(SYS_gettid), by = 0;
    if (dp_cas_relaxed(&crash.by, &by, self)) {
        crash.sig = sig;
        dp_agent_call_on_stack(stack, sizeof stack, deliver_crash, NULL);
    } else if (by == self) {
        raise_again(crash.sig);
    } else {
        static _Atomic uint32_t never;
        int64_t deadline_ns = dp_agent_exit_deadline() + 1000000000;
        while (dp_load_relaxed(&crash.by) && dp_clock_ns() < deadline_ns)
            dp_futex_wait(&never, 0, deadline_ns);
    }
}

static uintptr_t pc_of(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#else
    return (uintptr_t)context->uc_mcontext.pc;
#endif
}

/* Logs that the profiler is at fault, if the crash is in one of its threads or in a library that it called. */
static void log_own_crash(int sig, uintptr_t pc)
{
    uintptr_t offset = pc;
    if (!dp_thread_self()->ours && !dp_symbols_shield_is_inside())
        return;
    const char *file = dp_symbols_shield_file_at(&offset);
    dp_log_bypass(true);
    dp_log(DP_LOG_ERROR,
           "the profiler itself crashed, signal %d, code %s+0x%llx; the program ends by that signal; "
           "symbolize=none avoids most of the code that can crash",
           sig, file, (unsigned long long)offset);
    dp_log_bypass(false);
    (void)!chdir("/proc/self/cwd"); /* a core file belongs into the program's directory; agent.c has another one */
}

/*
 * A signal that was sent to the process, and that this thread of the profiler took: the host's threads get it. Only the
 * main thread may repeat what kill sent as it was, so this becomes its sender.
 */
static bool pass_on(int sig, siginfo_t *info, ucontext_t *context)
{
    pid_t pid = getpid();
    if (!dp_thread_self()->ours || info->si_code > 0 || info->si_code == SI_TKILL)
        return false;
    sigaddset(&context->uc_sigmask, sig);
    return syscall(SYS_rt_sigqueueinfo, pid, sig, info) == 0 || syscall(SYS_kill, pid, sig) == 0;
}

static void on_crash(int sig, siginfo_t *info, void *at)
{
    ucontext_t *context = at;
    int saved = errno;
    pid_t pid = getpid(), self = (pid_t)syscall(SYS_gettid);
    if (pass_on(sig, info, context)) {
        errno = saved;
        return;
    }
    if (info->si_code > 0)
        dp_symbols_shield_crashed(pc_of(context), &context->uc_sigmask);
    /* The kernel does not let init of a pid namespace die of a signal that was sent by kill. */
    if (pid == 1 && info->si_code <= 0)
        return;
    if (!dp_load_relaxed(&restored) && dp_process_is_noted()) {
        log_own_crash(sig, pc_of(context));
        before_crash(sig);
    }
    set_default(sig);
    if (syscall(SYS_rt_tgsigqueueinfo, pid, self, sig, info))
        syscall(SYS_tgkill, pid, self, sig);
    if (pid == 1) {
        dp_agent_exit_cancelled();
        dp_store_relaxed(&crash.by, 0);
    }
    errno = saved;
}

void dp_agent_signals_unblock_crashes(void)
{
    sigset_t others;
    sigfillset(&others);
    for (int i = 0; i < N_CRASHES; i++) {
        struct action now = {.handler = SIG_DFL};
        /* abort unblocks SIGABRT itself; the others are sent to the process */
        if (crashes[i] == SIGABRT || crashes[i] == SIGXCPU || crashes[i] == SIGSYS ||
            syscall(SYS_rt_sigaction, crashes[i], NULL, &now, sizeof now.mask) ||
            now.handler != (void (*)(int))(uintptr_t)on_crash)
            continue;
        sigdelset(&others, crashes[i]);
    }
    pthread_sigmask(SIG_SETMASK, &others, NULL);
}

/* True: the action is installed. */
static bool install(int sig, unsigned replacement)
{
    struct sigaction old;
    if (replacement_of[sig])
        return true; /* installed by an earlier start */
    if (sigaction(sig, NULL, &old) || old.sa_handler != SIG_DFL)
        return false;
    replacement_of[sig] = (uint8_t)replacement;
    sigaction(sig, &replacements[replacement], NULL);
    return true;
}

static struct sigaction ordinary(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < N_FATAL; i++)
        sigaddset(&action.sa_mask, fatal[i]);
    return action;
}

static void install_all(void)
{
    replacements[FOR_FATAL] = ordinary(on_fatal);
    struct sigaction crashed = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    for (int i = 0; i < N_FATAL; i++)
        install(fatal[i], FOR_FATAL);
    sigfillset(&crashed.sa_mask);
    for (int i = 0; i < N_CRASHES; i++)
        /* SIGXCPU comes again every second; a crash during the delivery must not be blocked */
        if (crashes[i] != SIGXCPU)
            sigdelset(&crashed.sa_mask, crashes[i]);
    replacements[FOR_CRASH] = crashed;
    for (int i = 0; i < N_CRASHES; i++)
        install(crashes[i], FOR_CRASH);
}

void dp_agent_signals_init(const struct dp_config *conf)
{
    replacements[FOR_REQUEST] = ordinary(dp_agent_request_handler());
    if (conf->signals)
        install_all();
    dp_thread_sigstack_want(conf->signals);
    dp_thread_start();
    if (conf->signal && install(conf->signal, FOR_REQUEST))
        dp_agent_request_init(conf->signal, &replacements[FOR_REQUEST]);
    else if (conf->signal)
        dp_log(DP_LOG_ERROR,
               "signal=%d: the program already handles or ignores it; the signal does not request profiles",
               conf->signal);
}

static bool is_ours(const struct sigaction *action)
{
    return action->sa_handler == on_fatal || action->sa_sigaction == on_crash || dp_agent_request_is_ours(action);
}

static void restore(int sig)
{
    struct sigaction now;
    if (!replacement_of[sig])
        return;
    replacement_of[sig] = NO_REPLACEMENT;
    /* An interposed sigaction reports this handler as SIG_DFL. */
    if (sigaction(sig, NULL, &now) == 0 && (now.sa_handler == SIG_DFL || is_ours(&now)))
        set_default(sig);
}

void dp_agent_signals_restore(void)
{
    dp_store_relaxed(&restored, true);
    dp_agent_request_stop();
    dp_thread_sigstack_want(false);
    for (int i = 0; i < N_FATAL; i++)
        restore(fatal[i]);
    for (int i = 0; i < N_CRASHES; i++)
        restore(crashes[i]);
}

DP_IN_CHILD void dp_agent_signals_fork_child(void)
{
    dp_store_relaxed(&crash.by, 0);
}

int dp_agent_signals_action(int sig, const struct sigaction *act, struct sigaction *old,
                            int (*real)(int, const struct sigaction *, struct sigaction *))
{
    const struct sigaction *asked = act;
    struct sigaction apart;
    if (act && sig > 0 && sig < _NSIG && act->sa_handler == SIG_DFL && replacement_of[sig])
        act = &replacements[replacement_of[sig]];
    else if (act && act->sa_handler != SIG_DFL && act->sa_handler != SIG_IGN && (act->sa_flags & SA_ONSTACK) &&
             !is_ours(act)) {
        dp_thread_sigstack_want(false);
        apart = *act;
        dp_cpu_signal_add(&apart.sa_mask);
        act = &apart;
    }
    if (sig == dp_agent_request_signal() && sig)
        return dp_agent_request_action(asked, old, real);
    int err = real(sig, act, old);
    if (err == 0 && old && is_ours(old)) {
        old->sa_handler = SIG_DFL;
        old->sa_flags = 0;
        sigemptyset(&old->sa_mask);
    }
    if (err == 0 && old)
        dp_cpu_signal_remove(&old->sa_mask);
    return err;
}

int dp_agent_signals_stack(const stack_t *stack, stack_t *old, int (*real)(const stack_t *, stack_t *))
{
    int err = real(stack, old);
    if (err == 0 && old && dp_thread_sigstack_is_ours(old->ss_sp))
        *old = (stack_t){.ss_flags = SS_DISABLE};
    return err;
}
