/* SPDX-License-Identifier: MIT */
/*
 * host/cpu/shared_signal.c - installs the handler of the timers' signal, and passes on what is meant for others.
 *
 * The signal is the one by which libc cancels threads: 32 in glibc, 33 in musl. libc keeps programs away from it:
 * sigaction refuses it, sigfillset leaves it out, pthread_sigmask never blocks it. So a program that blocks all
 * signals, or waits for any of them by sigwait or a signalfd, does not meet it, and no handler of the program's sees
 * it. That is why it is taken and not SIGPROF: a full mask would hide SIGPROF, and ppoll with an empty one would then
 * end by it.
 *
 * libc installs its own handler when the first thread is cancelled. Until the hook of pthread_cancel installs this one
 * again, libc ignores the timers' signals: glibc because they are not sent by tkill, musl because the thread was not
 * cancelled. A signal that is sent by tkill goes to libc's handler, with the signals blocked that it asked for and no
 * more: it may not return.
 *
 * The signals beside it, which libc uses to set ids in all threads, stay libc's: setuid would wait for ever.
 *
 * Where the kernel refuses it (under an emulator that keeps it), SIGPROF is used if it is at its default. A SIGPROF of
 * another sender then has its default effect.
 */
#include "host/cpu/shared_signal.h"

#include "base/atomic.h"
#include "base/libc.h"
#include "host/cpu/handler.h"
#include "host/cpu/timers.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* As the kernel has it. SIG_DFL is 0, SIG_IGN 1. */
struct action {
    void (*handler)(int, siginfo_t *, void *);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

static struct {
    void (*_Atomic handler)(int, siginfo_t *, void *); /* libc's, or NULL */
    _Atomic uint64_t mask;                             /* relaxed: libc's is always the same */
    int sig;                                           /* 0: none is installed yet */
} chained;

#if defined(__x86_64__)
/* The code by which libgcc and debuggers recognize a signal frame. No unwind data: they would be wrong. */
extern void dp_cpu_signal_return(void) __attribute__((visibility("hidden")));
__asm__(".pushsection .text\n"
        ".balign 16\n"
        "nop\n"
        ".globl dp_cpu_signal_return\n"
        ".hidden dp_cpu_signal_return\n"
        ".type dp_cpu_signal_return, @function\n"
        "dp_cpu_signal_return:\n"
        "mov $15, %rax\n" /* rt_sigreturn */
        "syscall\n"
        ".size dp_cpu_signal_return, . - dp_cpu_signal_return\n"
        ".popsection\n");
enum { RESTORER = 0x04000000 };
#else
#define dp_cpu_signal_return NULL /* the kernel's object has it */
enum { RESTORER = 0 };
#endif

static int change_action(int sig, const struct action *action, struct action *before)
{
    return syscall(SYS_rt_sigaction, sig, action, before, sizeof action->mask) ? -errno : 0;
}

static void change_mask(int how, uint64_t mask)
{
    syscall(SYS_rt_sigprocmask, how, &mask, NULL, sizeof mask);
}

static uint64_t bit(int sig)
{
    return UINT64_C(1) << (sig - 1);
}

/* A SIGPROF that somebody else sent, where the program has no handler. */
static void die_of(int sig)
{
    static const struct action by_default = {0};
    change_action(sig, &by_default, NULL);
    syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), sig); /* blocked until the handler returns */
}

static void pass_on(int sig, siginfo_t *info, void *context)
{
    void (*handler)(int, siginfo_t *, void *) = dp_load_acquire(&chained.handler); /* [CHAIN] */
    if (!handler) {
        if (sig != DP_LIBC_CANCEL_SIGNAL)
            die_of(sig);
        return;
    }
    uint64_t mask;
    __builtin_memcpy(&mask, &((const ucontext_t *)context)->uc_sigmask, sizeof mask);
    change_mask(SIG_SETMASK, mask | dp_load_relaxed(&chained.mask) | bit(sig));
    handler(sig, info, context);
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
    dp_cpu_slot slot;
    uint32_t serial;
    if (info->si_code == SI_TIMER && dp_cpu_value_read((uint64_t)(uintptr_t)info->si_value.sival_ptr, &slot, &serial))
        dp_cpu_handle(info, context);
    else
        pass_on(sig, info, context);
}

static const struct action mine = {
    .handler = on_signal,
    .flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK | RESTORER,
    .restorer = dp_cpu_signal_return,
    .mask = ~UINT64_C(0), /* a handler that left by longjmp would keep the block of the walk */
};

/* Faults stay deliverable: a fault in a handler must be seen by those who report crashes. */
static struct action my_action(void)
{
    struct action action = mine;
    action.mask &= ~(bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGFPE) | bit(SIGTRAP) | bit(SIGSYS));
    return action;
}

static void chain(const struct action *before)
{
    if (before->handler == on_signal || (uintptr_t)before->handler <= (uintptr_t)SIG_IGN)
        return;
    dp_store_relaxed(&chained.mask, before->mask);
    dp_store_release(&chained.handler, before->handler); /* [CHAIN] else it could be called with another's mask */
}

int dp_cpu_signal_install(void)
{
    struct action action = my_action(), before;
    if (chained.sig)
        return dp_cpu_signal_restore() ? chained.sig : -ENOTSUP;
    if (change_action(DP_LIBC_CANCEL_SIGNAL, NULL, &before) == 0) {
        chain(&before); /* first, so that no cancellation is lost */
        if (change_action(DP_LIBC_CANCEL_SIGNAL, &action, NULL) == 0)
            return chained.sig = DP_LIBC_CANCEL_SIGNAL;
    }
    if (change_action(SIGPROF, NULL, &before) || before.handler || change_action(SIGPROF, &action, NULL))
        return -ENOTSUP;
    return chained.sig = SIGPROF;
}

bool dp_cpu_signal_restore(void)
{
    struct action action = my_action(), before;
    int saved = errno;
    bool there = chained.sig && change_action(chained.sig, NULL, &before) == 0;
    if (there && before.handler != on_signal) {
        there = chained.sig == DP_LIBC_CANCEL_SIGNAL;
        if (there) {
            chain(&before);
            change_action(chained.sig, &action, NULL);
        }
    }
    errno = saved;
    return there;
}

bool dp_cpu_signal_block(bool on)
{
    uint64_t mask = chained.sig ? bit(chained.sig) : 0, before = 0;
    int saved = errno;
    if (mask)
        syscall(SYS_rt_sigprocmask, on ? SIG_BLOCK : SIG_UNBLOCK, &mask, &before, sizeof mask);
    errno = saved;
    return before & mask;
}

/* libc's sigaddset refuses its own signals. A set begins with the words that the kernel reads. */
enum { WORD_BITS = 8 * sizeof(unsigned long) };

static unsigned long *word_of(sigset_t *mask, int sig)
{
    return (unsigned long *)(void *)mask + (unsigned)(sig - 1) / WORD_BITS;
}

static unsigned long bit_in_word(int sig)
{
    return 1ul << (unsigned)(sig - 1) % WORD_BITS;
}

void dp_cpu_signal_add(sigset_t *mask)
{
    int sig = dp_load_relaxed(&dp_cpu_state.sig);
    if (sig > 0)
        *word_of(mask, sig) |= bit_in_word(sig);
}

void dp_cpu_signal_remove(sigset_t *mask)
{
    int sig = dp_load_relaxed(&dp_cpu_state.sig);
    if (sig > 0 && sig != SIGPROF) /* which the program may have added itself */
        *word_of(mask, sig) &= ~bit_in_word(sig);
}
