/* SPDX-License-Identifier: MIT */
/*
 * victim_stacks N - allocates N blocks, each in a different stack: a path in a binary tree of calls. It keeps every
 * 16th block. Prints objects, bytes, kept objects, kept bytes, and the peak of its resident memory in KiB.
 */
#include "../../support/tally.h"

#include <fcntl.h>

static struct tally book[1];
static struct block *held;

NOINLINE void branch_left(unsigned path, int depth);
NOINLINE void branch_right(unsigned path, int depth);

static inline void down(unsigned path, int depth)
{
    if (depth == 0) {
        struct block *b = tally_alloc(&book[0], malloc(24 + path % 64), 24 + path % 64);
        if (path % 16) {
            tally_free(b->owner, b->n_bytes);
            free(b);
        } else {
            held = b;
        }
    } else if (path >> depth & 1) {
        branch_left(path, depth - 1);
    } else {
        branch_right(path, depth - 1);
    }
    __asm__ volatile("" ::: "memory");
}

void branch_left(unsigned path, int depth)
{
    down(path, depth);
}

void branch_right(unsigned path, int depth)
{
    down(path, depth);
}

/* getrusage's value would include the process before its exec. */
static long peak_kib(void)
{
    static char text[4096];
    int fd = open("/proc/self/status", O_RDONLY);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    const char *line = n > 0 ? strstr(text, "VmHWM:") : NULL;
    return line ? atol(line + 6) : 0;
}

int main(int argc, char **argv)
{
    unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
    for (unsigned i = 0; i < n; i++)
        branch_left(i * 2654435761u >> 8, 22);
    printf("%lld %lld %lld %lld %ld\n", (long long)book[0].alloc_objects, (long long)book[0].alloc_bytes,
           (long long)(book[0].alloc_objects - book[0].free_objects),
           (long long)(book[0].alloc_bytes - book[0].free_bytes), peak_kib());
    return held == NULL;
}
