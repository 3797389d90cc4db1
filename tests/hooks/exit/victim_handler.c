/* SPDX-License-Identifier: MIT */
/*
 * victim_handler HOW [SIGNAL] - is interrupted inside malloc (strict.c), after a first profile was written. The stack
 * then has functions that no profile contains yet.
 *
 * signal the signal has its default action
 *     _exit    a handler of the program calls _exit(5)
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

extern int strict_signal __attribute__((weak));
extern int deltaprof_emit(void) __attribute__((weak));

static void *held[4];

NOINLINE void make_first(void)
{
    held[0] = malloc(100);
}

NOINLINE void make_last(void)
{
    held[1] = malloc(1234);
}

NOINLINE void interrupted(void)
{
    held[2] = malloc(10);
}

static void leave(int number)
{
    _exit(5);
}

static void *idle(void *arg)
{
    for (;;)
        pause();
    return arg;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int number = argc > 2 ? atoi(argv[2]) : SIGTERM;
    pthread_t thread;
    if (strcmp(how, "_exit") == 0)
        signal(number, leave);
    pthread_create(&thread, NULL, idle, NULL);
    make_first();
    if (deltaprof_emit)
        deltaprof_emit();
    make_last();
    if (&strict_signal)
        strict_signal = number;
    interrupted();
    return 0;
}
