/* SPDX-License-Identifier: MIT */
/* spawn N PROGRAM - microseconds from start to exit of PROGRAM, the mean of N, one after the other. */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

int main(int argc, char **argv)
{
    struct timespec start, end;
    if (argc < 3)
        return 2;
    /* The children get LD_PRELOAD; this program has it under another name. */
    if (getenv("SPAWN_PRELOAD"))
        setenv("LD_PRELOAD", getenv("SPAWN_PRELOAD"), 1);
    int n = atoi(argv[1]);
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < n; i++) {
        pid_t pid;
        int status;
        if (posix_spawn(&pid, argv[2], NULL, NULL, argv + 2, environ) || waitpid(pid, &status, 0) != pid || status)
            return 3;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.1f\n", ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) / 1e3 / n);
    return 0;
}
