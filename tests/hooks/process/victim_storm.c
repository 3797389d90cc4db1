/* SPDX-License-Identifier: MIT */
/*
 * victim_storm N [DIRECTORY] - forks N children out of a process whose eight other threads allocate without pause; each
 * child makes ten blocks and ends. Every fourth uses _exit, and every fourth executes another program. With the
 * DIRECTORY of the profiles, each makes its first block when a tick is due, and continues after that tick has written
 * it. Prints how many ended normally, and the pids of parent and children; lists those that did not end within a
 * minute.
 */
#include "../../support/tally.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define N_AT_ONCE 8

static struct tally book[] = {{.function = "make_in_child"}};
static atomic_int stopping;

NOINLINE struct block *make_in_child(size_t n)
{
    return tally_alloc(&book[0], malloc(n), n);
}

NOINLINE void *make_in_thread(size_t n)
{
    void *ptr = malloc(n);
    __asm__ volatile("" ::"r"(ptr) : "memory");
    return ptr;
}

static void *worker(void *arg)
{
    void *slots[64] = {0};
    for (unsigned i = 0; !atomic_load(&stopping); i = i * 5 + 1) {
        free(slots[i >> 8 & 63]);
        slots[i >> 8 & 63] = make_in_thread(16 + (i >> 16 & 1023));
    }
    for (int i = 0; i < 64; i++)
        free(slots[i]);
    return NULL;
}

static void wait_for_profile(const char *directory)
{
    char path[512];
    snprintf(path, sizeof path, "%s/victim_storm.%d.0001.heap.pb.gz", directory, (int)getpid());
    while (access(path, F_OK) && errno == ENOENT)
        usleep(10000);
}

static void child(int how, const char *directory)
{
    if (directory)
        usleep(400000);
    for (int i = 0; i < 10; i++) {
        if (i == 1 && directory)
            wait_for_profile(directory);
        struct block *b = make_in_child(100);
        if (i % 2)
            free(b);
    }
    if (how == 3) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(9);
    }
    if (how == 2)
        _exit(0);
    exit(0);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 100, n_well = 0, n_hung = 0;
    pid_t *all = calloc((size_t)n, sizeof *all);
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        if (pthread_create(&threads[i], NULL, worker, NULL))
            return 3;
    for (int i = 0; i < n; i += N_AT_ONCE) {
        pid_t pids[N_AT_ONCE];
        int many = n - i < N_AT_ONCE ? n - i : N_AT_ONCE;
        for (int k = 0; k < many; k++) {
            pids[k] = fork();
            if (pids[k] == 0)
                child((i + k) % 4, argc > 2 ? argv[2] : NULL);
            all[i + k] = pids[k];
        }
        double deadline = now() + 60;
        for (int k = 0; k < many; k++) {
            int status = -1;
            pid_t ended;
            while ((ended = waitpid(pids[k], &status, WNOHANG)) == 0 && now() < deadline)
                usleep(1000);
            if (ended == pids[k] && status == 0) {
                n_well++;
            } else if (ended == 0) {
                dprintf(STDERR_FILENO, "child %d hangs\n", (int)pids[k]);
                n_hung++;
                kill(pids[k], SIGKILL);
                waitpid(pids[k], &status, 0);
            } else {
                dprintf(STDERR_FILENO, "child %d: status %x\n", (int)pids[k], status);
            }
        }
    }
    atomic_store(&stopping, 1);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    printf("%d of %d ended well, %d hung; parent %d, children", n_well, n, n_hung, (int)getpid());
    for (int i = 0; i < n; i++)
        printf(" %d", (int)all[i]);
    printf("\n");
    return 0;
}
