// SPDX-License-Identifier: MIT
// victim_forks.c - allocates 3,000 blocks in a thread, in a forked child and after it.
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline, noclone)) static void *makes_blocks(void *arg)
{
    for (int i = 0; i < 3000; i++)
        free(malloc(3000));
    return arg;
}

int main(void)
{
    pthread_t thread;
    int status = 1;
    if (pthread_create(&thread, NULL, makes_blocks, NULL) || pthread_join(thread, NULL))
        return 1;
    pid_t child = fork();
    if (!child) {
        makes_blocks(NULL);
        return 0;
    }
    waitpid(child, &status, 0);
    makes_blocks(NULL);
    return status;
}
