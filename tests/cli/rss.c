// SPDX-License-Identifier: MIT
// rss.c - uses memory in known ways and prints the sizes as JSON, then waits for the end of its input. With the
// argument `changes-user` it changes its user first. With `titles` it writes over its environment, as a program that
// sets its title, and a child of it does the rest. With an argument it does not touch the pages that otherwise it only
// reads.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 160000, BLOCK = 200, LARGE = 24 << 20, MAPPED = 16 << 20, ON_STACK = 3 << 20, UNTOUCHED = 64 << 20 };

static void *blocks[BLOCKS];
static char data[5 << 20]; // .bss

static void *deep(void *barrier)
{
    char local[ON_STACK];
    memset(local, 1, sizeof local);
    __asm__ volatile("" : : "r"(local) : "memory");
    pthread_barrier_wait(barrier);
    pause();
    return local[1] ? NULL : barrier;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "titles"))
        for (char **text = environ; *text; text++)
            memset(*text, 0, strlen(*text));
    pthread_t thread;
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, deep, &barrier);
    pthread_barrier_wait(&barrier);
    memset(data, 1, sizeof data);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = memset(malloc(BLOCK), 1, BLOCK);
    pid_t child = argc > 1 && !strcmp(argv[1], "titles") ? fork() : 0;
    if (child)
        return waitpid(child, NULL, 0) != child;
    for (int i = 0; i < BLOCKS; i++) // three of four are free, and no page is
        if (i % 4)
            free(blocks[i]);
    void *large = memset(malloc(LARGE), 1, LARGE), *untouched = calloc(1, UNTOUCHED);
    for (size_t i = 0; argc == 1 && i < UNTOUCHED; i += 4096) // reads map the page of zeros: not in its RSS
        (void)((volatile char *)untouched)[i];
    void *mapped = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(mapped, 1, MAPPED);
    if (argc > 1 && !strcmp(argv[1], "changes-user") &&
        setuid(65534)) // the kernel then gives the files of /proc/self to root
        return 1;
    printf("{\"pid\":%d,\"in_use\":%d,\"held\":%d,\"stacks\":%d,\"files\":%zu,\"mapped\":%d,\"untouched\":%d,\"kept\":%"
           "d}\n",
           (int)getpid(), BLOCKS / 4 * BLOCK + LARGE, BLOCKS / 4 * 3 * BLOCK, ON_STACK, sizeof data, MAPPED, UNTOUCHED,
           large && untouched && mapped);
    fflush(stdout);
    /* A forked process gets its thread at a sampled allocation once it is 100 ms old; a signal handler measures
     * nothing. */
    for (int i = 0; i < 30; i++) {
        usleep(10000);
        void *volatile block = malloc(BLOCK);
        free(block);
    }
    while (getchar() != EOF)
        ;
    return 0;
}
