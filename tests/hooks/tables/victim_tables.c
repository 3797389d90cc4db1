// SPDX-License-Identifier: MIT
// victim_tables.c - allocates and frees until it is killed, and books each event twice in a shared page, before and
// after: victim_tables PAGE THREADS MODE. MODE: "plain"; "fork": a child does the same, its parent goes on; "exec": the
// program executes itself once before it begins; "grow": frees nothing and writes to all blocks; "raw": a child made by
// a raw clone does, which is no process to book; "left": the main thread has left by pthread_exit; "user": it becomes
// another user before it begins; "exit": main returns while the other threads go on.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCKS = 64, FUNCTIONS = 3, PROCESSES = 2 };

struct book {
    _Atomic int64_t pid;
    struct {
        _Atomic int64_t allocs, bytes, frees, freed_bytes;
    } begun, done;
    _Atomic int64_t by_function[FUNCTIONS][2]; // begun, done
};

static struct book *book;
static int main_leaves;
static bool grows, main_returns;

#define MAKER(name)                                                      \
    __attribute__((noinline, noclone)) static void *name(size_t n_bytes) \
    {                                                                    \
        void *block = malloc(n_bytes);                                   \
        __asm__ volatile("" : "+r"(block));                              \
        return block;                                                    \
    }
MAKER(makes_one)
MAKER(makes_two)
MAKER(makes_three)
MAKER(makes_unbooked)

static void *(*const makers[FUNCTIONS])(size_t) = {makes_one, makes_two, makes_three};

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static void *run(void *seed)
{
    static __thread struct {
        void *at;
        size_t n_bytes;
    } blocks[BLOCKS];
    uint32_t random = (uint32_t)(uintptr_t)seed;
    for (;;) { // until it is killed
        unsigned i = next_random(&random) % BLOCKS, f = next_random(&random) % FUNCTIONS;
        int64_t n = 1 + next_random(&random) % (grows ? 20000 : 500);
        if (blocks[i].at && !grows) {
            atomic_fetch_add(&book->begun.frees, 1);
            atomic_fetch_add(&book->begun.freed_bytes, (int64_t)blocks[i].n_bytes);
            free(blocks[i].at);
            atomic_fetch_add(&book->done.frees, 1);
            atomic_fetch_add(&book->done.freed_bytes, (int64_t)blocks[i].n_bytes);
        }
        atomic_fetch_add(&book->begun.allocs, 1);
        atomic_fetch_add(&book->begun.bytes, n);
        atomic_fetch_add(&book->by_function[f][0], 1);
        blocks[i].at = makers[f]((size_t)n);
        blocks[i].n_bytes = (size_t)n;
        if (grows && blocks[i].at)
            memset(blocks[i].at, 1, (size_t)n);
        atomic_fetch_add(&book->done.allocs, 1);
        atomic_fetch_add(&book->done.bytes, n);
        atomic_fetch_add(&book->by_function[f][1], 1);
    }
    return NULL;
}

// A block of makes_two that run does not make.
static void count(int64_t n_bytes, int64_t n_made, int64_t n_freed)
{
    atomic_fetch_add(&book->begun.allocs, n_made);
    atomic_fetch_add(&book->done.allocs, n_made);
    atomic_fetch_add(&book->begun.bytes, n_made * n_bytes);
    atomic_fetch_add(&book->done.bytes, n_made * n_bytes);
    atomic_fetch_add(&book->by_function[1][0], n_made);
    atomic_fetch_add(&book->by_function[1][1], n_made);
    atomic_fetch_add(&book->begun.frees, n_freed);
    atomic_fetch_add(&book->done.frees, n_freed);
    atomic_fetch_add(&book->begun.freed_bytes, n_freed * n_bytes);
    atomic_fetch_add(&book->done.freed_bytes, n_freed * n_bytes);
}

// Threads of its own, so that no allocation of libc's goes unbooked in between.
static void run_all(unsigned n_threads)
{
    pthread_t thread;
    atomic_store(&book->pid, getpid());
    for (unsigned i = 1; i < n_threads; i++)
        pthread_create(&thread, NULL, run, (void *)(uintptr_t)(i * 7919));
    if (main_leaves)
        pthread_exit(NULL);
    if (main_returns) {
        while (atomic_load(&book->done.allocs) < 1000)
            sched_yield();
        return;
    }
    run((void *)(uintptr_t)(getpid() * 31));
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    int fd = open(argv[1], O_RDWR);
    struct book *books = mmap(NULL, PROCESSES * sizeof *book, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || books == MAP_FAILED)
        return 1;
    close(fd);
    unsigned n_threads = (unsigned)atoi(argv[2]);
    book = books;
    if (!strcmp(argv[3], "exec")) {
        argv[3] = (char *)"plain";
        free(makes_unbooked(100));
        execv("/proc/self/exe", argv);
        return 1;
    }
    if (!strcmp(argv[3], "fork")) {
        void *inherited = makes_two(1000); // the child frees it: that is no free of a block of the child's
        count(1000, 1, 0);
        book = &books[1];
        pid_t child = fork();
        if (child < 0)
            return 1;
        if (!child) {
            free(inherited);
            run_all(n_threads);
        }
        book = books;
        count(1000, 0, 1);
        free(inherited);
    }
    if (!strcmp(argv[3], "raw") && !syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)) {
        for (int i = 0; i < 1000; i++)
            free(makes_three(77));
        for (;;)
            pause();
    }
    if (!strcmp(argv[3], "user") && (setgid(65534) || setuid(65534)))
        return 1;
    grows = !strcmp(argv[3], "grow");
    main_leaves = !strcmp(argv[3], "left");
    main_returns = !strcmp(argv[3], "exit");
    run_all(n_threads);
}
