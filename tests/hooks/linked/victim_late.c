/* SPDX-License-Identifier: MIT */
/*
 * victim_late ADDRESS - a server whose log callback waits for a lock. A thread of the profiler is in it while the main
 * thread, which has the lock, ends the profiler's threads. Prints whether that took less than five seconds, and
 * whether it works in a signal handler that interrupts it.
 */
#include <deltaprof/deltaprof.h>
#include <deltaprof/interpose.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int entered, n_handled;
static pthread_t program;

static void wait_for_lock(void *ctx, const char *line)
{
    if (pthread_equal(pthread_self(), program))
        return;
    atomic_store(&entered, 1);
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
}

static void stop_in_handler(int sig)
{
    deltaprof_stop_agent();
    n_handled++;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    char conf[1200];
    snprintf(conf, sizeof conf, "listen=%s,log=info,exit_timeout=1s,interval=20ms", argv[argc - 1]);
    program = pthread_self();
    deltaprof_set_log(wait_for_lock, NULL);
    pthread_mutex_lock(&lock);
    if (deltaprof_start(conf))
        return 1;
    while (!atomic_load(&entered)) /* the thread tells where it listens */
        usleep(1000);
    double start = seconds();
    deltaprof_stop_agent();
    printf("%s\n", seconds() - start < 5 ? "stopped or late" : "slow");
    deltaprof_resume();
    signal(SIGALRM, stop_in_handler);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 200000}, {0, 200000}}, NULL);
    start = seconds();
    deltaprof_stop_agent();
    printf("%s\n", seconds() - start < 5 ? "stopped or late" : "slow");
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    printf("%s\n", atomic_load(&n_handled) ? "handled" : "never interrupted");
    fflush(stdout);
    pthread_mutex_unlock(&lock);
    deltaprof_resume();
    deltaprof_stop_agent();
    return 0;
}
