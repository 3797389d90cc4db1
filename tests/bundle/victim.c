/* SPDX-License-Identifier: MIT */
/*
 * victim - allocates 1000 blocks of 100 bytes and 500 of 1000 bytes, repeats that in a child, makes two threads wait
 * for a lock, and ends at the end of stdin. With arguments, the child executes them instead.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int n_started;
static void *volatile kept;

__attribute__((noinline)) void *hundred(void)
{
    kept = malloc(100);
    return kept;
}

__attribute__((noinline)) void *thousand(void)
{
    kept = malloc(1000);
    return kept;
}

static void allocate(void)
{
    for (int i = 0; i < 1000; i++) {
        free(hundred());
        if (i % 2)
            thousand();
    }
}

static void *wait_for_the_lock(void *arg)
{
    n_started++;
    while (n_started < 2) /* else one thread may be done before the other begins */
        usleep(1000);
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&lock);
        usleep(2000);
        pthread_mutex_unlock(&lock);
    }
    return arg;
}

int main(int argc, char **argv)
{
    char byte;
    pthread_t threads[2];
    allocate();
    pid_t child = fork();
    if (child == 0) {
        if (argc > 1)
            return execv(argv[1], argv + 1);
        allocate();
        return 0;
    }
    waitpid(child, NULL, 0);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, wait_for_the_lock, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("ready\n");
    fflush(stdout);
    return read(STDIN_FILENO, &byte, 1) != 0;
}
