/* SPDX-License-Identifier: MIT */
/*
 * victim_stuck CONF - a server whose profile goes to a reader that never reads. It prints the longest time that fork
 * took, in microseconds, before the write is stuck and while it is, and whether other readers still get profiles.
 */
#include "../../support/tally.h"

#include <deltaprof/deltaprof.h>
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

static atomic_int entered;

static int into_pipe(void *ctx, const void *bytes, size_t n_bytes)
{
    atomic_store(&entered, 1);
    static char fill[1 << 20]; /* more than a pipe holds */
    return write(*(int *)ctx, fill, sizeof fill) < 0 ? -errno : 0;
}

static int discard(void *ctx, const void *bytes, size_t n_bytes)
{
    return 0;
}

static void *get_stuck(void *fd)
{
    struct deltaprof_delta *delta = deltaprof_delta_new(DELTAPROF_HEAP);
    deltaprof_delta_write(delta, into_pipe, fd);
    return NULL;
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double fork_us(void)
{
    double worst = 0;
    for (int i = 0; i < 50; i++) {
        double start = now_us();
        pid_t pid = fork();
        if (pid == 0)
            _exit(malloc(100) ? 0 : 1);
        double took = now_us() - start;
        worst = took > worst ? took : worst;
        int status;
        if (waitpid(pid, &status, 0) != pid || status)
            return 1e9;
    }
    return worst;
}

int main(int argc, char **argv)
{
    if (argc < 2 || deltaprof_start(argv[1]))
        return 3;
    for (int i = 0; i < 30000; i++)
        if (!malloc(16))
            return 4;
    double before = fork_us();
    int ends[2];
    pthread_t thread;
    if (pipe(ends) || pthread_create(&thread, NULL, get_stuck, &ends[1]))
        return 5;
    while (!atomic_load(&entered))
        usleep(1000);
    double stuck = fork_us();
    struct deltaprof_delta *delta = deltaprof_delta_new(DELTAPROF_HEAP);
    int other = deltaprof_delta_write(delta, discard, NULL);
    printf("%.0f %.0f %d %d\n", before, stuck, other, deltaprof_emit());
    fflush(stdout);
    return 0; /* with the write still stuck */
}
