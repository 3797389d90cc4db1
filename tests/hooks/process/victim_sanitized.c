/* SPDX-License-Identifier: MIT */
/* victim_sanitized - built with a sanitizer: allocates in threads, frees, jumps, forks. The sanitizer must report
 * nothing. */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *work(void *arg)
{
    for (int i = 1; i < 2000; i++) {
        char *ptr = malloc((size_t)i);
        memset(ptr, i, (size_t)i);
        ptr = realloc(ptr, (size_t)i * 2);
        free(ptr);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    jmp_buf env;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    if (setjmp(env) == 0)
        longjmp(env, 1);
    pid_t pid = fork();
    if (pid == 0) {
        work(NULL);
        _exit(7);
    }
    int status;
    waitpid(pid, &status, 0);
    printf("done %d\n", WEXITSTATUS(status));
    return 5;
}
