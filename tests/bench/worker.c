/* SPDX-License-Identifier: MIT */
/*
 * worker exit|_exit [DIR] - a server of short workers: forks one for each byte of standard input.
 *
 * A worker calls 64 functions, each from the one before, which the server never calls. In the last it allocates 600 kB
 * in small blocks and two large blocks, frees half of the small ones, and ends. With DIR it also writes a file there,
 * with the system calls that writing a profile needs at least. For each worker a line is printed: the microseconds of
 * processor time of the worker (wait4), its page faults, and the microseconds of processor time that the server spent
 * on it. bench_workers.py asks several servers in turn, with and without the profiler.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SMALL_BYTES = 100, N_SMALL = 6000, LARGE_BYTES = 1 << 20 };

static void *blocks[N_SMALL];

__attribute__((noinline)) static void request(void)
{
    for (int i = 0; i < N_SMALL; i++) {
        blocks[i] = malloc(SMALL_BYTES);
        memset(blocks[i], i, SMALL_BYTES);
    }
    char *large[2];
    for (int i = 0; i < 2; i++) {
        large[i] = malloc(LARGE_BYTES);
        large[i][i] = 1;
    }
    for (int i = 0; i < N_SMALL; i += 2)
        free(blocks[i]);
    for (int i = 0; i < 2; i++)
        free(large[i]);
}

/* LEVEL(11, level_10) is the function level_11, which calls level_10. */
#define LEVEL(n, below)                                         \
    __attribute__((noinline)) static void level_##n(void)       \
    {                                                           \
        below();                                                \
        __asm__ volatile(""); /* so that the call is no jump */ \
    }
#define EIGHT(n, below)       \
    LEVEL(n##0, below)        \
    LEVEL(n##1, level_##n##0) \
    LEVEL(n##2, level_##n##1) \
    LEVEL(n##3, level_##n##2) \
    LEVEL(n##4, level_##n##3) \
    LEVEL(n##5, level_##n##4) \
    LEVEL(n##6, level_##n##5) \
    LEVEL(n##7, level_##n##6)
EIGHT(1, request)
EIGHT(2, level_17)
EIGHT(3, level_27)
EIGHT(4, level_37)
EIGHT(5, level_47)
EIGHT(6, level_57)
EIGHT(7, level_67)
EIGHT(8, level_77)

/* As a small profile is written: under a temporary name, then renamed. */
static void write_file(const char *dir_path)
{
    static const char bytes[800];
    char temporary[50], name[50];
    snprintf(temporary, sizeof temporary, ".worker.%d.tmp", (int)getpid());
    snprintf(name, sizeof name, "worker.%d.pb.gz", (int)getpid());
    int dir = open(dir_path, O_RDONLY | O_DIRECTORY);
    int fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (write(fd, bytes, sizeof bytes) != sizeof bytes || close(fd) ||
        renameat2(dir, temporary, dir, name, RENAME_NOREPLACE) || close(dir))
        _exit(5);
}

static void work(int plain, const char *dir)
{
    level_87();
    if (dir)
        write_file(dir);
    if (plain)
        exit(0);
    _exit(0);
}

static double self_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
    char byte;
    if (argc < 2)
        return 2;
    int plain = strcmp(argv[1], "exit") == 0;
    request(); /* the server itself has samples, and its heap is in use */
    while (read(0, &byte, 1) == 1) {
        struct rusage used;
        int status;
        double begin = self_us();
        pid_t pid = fork();
        if (pid == 0)
            work(plain, argv[2]);
        if (pid < 0 || wait4(pid, &status, 0, &used) != pid || status)
            return 3;
        double server_us = self_us() - begin;
        char line[100];
        int n = snprintf(line, sizeof line, "%ld %ld %.1f\n",
                         (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000L + used.ru_utime.tv_usec +
                             used.ru_stime.tv_usec,
                         used.ru_minflt, server_us);
        if (write(1, line, (size_t)n) != n)
            return 4;
    }
    return 0;
}
