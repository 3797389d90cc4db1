/* SPDX-License-Identifier: MIT */
/*
 * victim_workers - a parent that holds memory and starts short workers one after the other.
 *
 *     victim_workers N HELD OWN [wait]
 *
 * The parent allocates HELD blocks of 1 MiB. Each of N workers frees the first of them, allocates OWN blocks of 1 KiB,
 * keeps them, and calls exit. The parent prints its pid and the pids of the workers. With `wait`, the parent then
 * allocates and frees a block every 20 ms until its standard input ends, and kills itself by SIGKILL.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 1000 };
static char *volatile held[MOST], *volatile own[MOST];

__attribute__((noinline)) static void parent_holds(int n)
{
    for (int i = 0; i < n; i++)
        held[i] = memset(malloc(1 << 20), 1, 1 << 20);
}

__attribute__((noinline)) static void worker_holds(int n)
{
    for (int i = 0; i < n; i++)
        own[i] = malloc(1 << 10);
}

int main(int argc, char **argv)
{
    int n = argc > 3 ? atoi(argv[1]) : 0, n_held = argc > 3 ? atoi(argv[2]) : 0, n_own = argc > 3 ? atoi(argv[3]) : 0;
    if (n_held > MOST || n_own > MOST)
        return 2;
    parent_holds(n_held);
    printf("%d", (int)getpid());
    for (int i = 0; i < n; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid < 0)
            return 1;
        if (!pid) {
            free(held[0]);
            worker_holds(n_own);
            exit(0);
        }
        int status;
        if (waitpid(pid, &status, 0) != pid || status)
            return 1;
        printf(" %d", (int)pid);
    }
    printf("\n");
    fflush(stdout);
    if (argc > 4) {
        struct pollfd in = {.fd = 0, .events = POLLIN};
        while (poll(&in, 1, 20) == 0)
            free(own[0] = malloc(1));
        raise(SIGKILL);
    }
    return 0;
}
