/* SPDX-License-Identifier: MIT */
/*
 * victim_request HOW - sets a handler for SIGUSR2, or none, gets the signal, and prints how the handler was called.
 * Then it kills itself by SIGKILL, so that only the signal asks for profiles.
 *
 *     sigaction | siginfo | signal | sysv_signal | resethand | ignore | default | changes | wait
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t n_plain, n_info, n_good, n_other;
static char stack[65536];
static void *volatile held;

static void on_plain(int sig)
{
    n_plain += sig == SIGUSR2;
    errno = 33;
}

static void on_other(int sig)
{
    n_other += sig == SIGUSR2;
}

static void on_info(int sig, siginfo_t *info, void *context)
{
    char here;
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    n_info += sig == SIGUSR2;
    n_good += info->si_pid == getpid() && context && &here >= stack && &here < stack + sizeof stack &&
              sigismember(&now, SIGHUP) && sigismember(&now, SIGUSR2);
}

static const char *name_of(const struct sigaction *a)
{
    return a->sa_handler == SIG_DFL     ? "default"
           : a->sa_handler == SIG_IGN   ? "ignore"
           : a->sa_handler == on_plain  ? "plain"
           : a->sa_handler == on_other  ? "other"
           : a->sa_sigaction == on_info ? "info"
                                        : "unknown";
}

static void show(const char *when)
{
    struct sigaction a;
    sigaction(SIGUSR2, NULL, &a);
    if (a.sa_handler == SIG_DFL)
        printf("%s: default\n", when); /* the kernel keeps flags of the handler that was there */
    else
        printf("%s: %s, flags %x, masks SIGHUP %d\n", when, name_of(&a), (unsigned)a.sa_flags & ~0x04000000u,
               sigismember(&a.sa_mask, SIGHUP));
}

static void install(const char *how)
{
    struct sigaction plain = {.sa_handler = on_plain, .sa_flags = SA_RESTART}, old;
    struct sigaction info = {.sa_sigaction = on_info, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_t mine = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaddset(&info.sa_mask, SIGHUP);
    sigaltstack(&mine, NULL);
    memset(&old, 0, sizeof old);
    if (!strcmp(how, "siginfo"))
        sigaction(SIGUSR2, &info, &old);
    else if (!strcmp(how, "signal"))
        old.sa_handler = signal(SIGUSR2, on_plain);
    else if (!strcmp(how, "sysv_signal"))
        old.sa_handler = sysv_signal(SIGUSR2, on_plain);
    else if (!strcmp(how, "ignore"))
        old.sa_handler = signal(SIGUSR2, SIG_IGN);
    else if (!strcmp(how, "resethand"))
        plain.sa_flags |= (int)SA_RESETHAND;
    if (!strcmp(how, "resethand") || !strcmp(how, "sigaction") || !strcmp(how, "changes"))
        sigaction(SIGUSR2, &plain, &old);
    printf("before: %s\n", name_of(&old));
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    held = malloc(1234);
    install(how);
    show("installed");
    errno = 0;
    if (!strcmp(how, "wait")) {
        sigset_t set;
        int got = 0;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        raise(SIGUSR2);
        sigwait(&set, &got);
        printf("got %d\n", got == SIGUSR2);
    } else if (strcmp(how, "default")) {
        raise(SIGUSR2);
        show("after one");
    }
    int err = errno;
    if (!strcmp(how, "changes")) {
        printf("it was %d\n", signal(SIGUSR2, on_other) == on_plain);
        show("changed");
        raise(SIGUSR2);
        printf("it was %d\n", signal(SIGUSR2, SIG_DFL) == on_other);
        show("default again");
    }
    printf("plain %d, info %d, good %d, other %d, errno %d\n", (int)n_plain, (int)n_info, (int)n_good, (int)n_other,
           err);
    fflush(stdout);
    raise(SIGKILL);
    return 0;
}
