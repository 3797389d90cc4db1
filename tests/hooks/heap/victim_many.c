/* SPDX-License-Identifier: MIT */
/* victim_many N - allocates N small blocks, all of which are in use at the end. */
#include <stdlib.h>

__attribute__((noinline)) static void **allocate(void **last, long i)
{
    void **block = malloc(sizeof *block + (size_t)(i % 5) * 16);
    if (block)
        *block = last;
    return block;
}

static void **volatile head;

int main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 0;
    for (long i = 0; i < n; i++)
        head = allocate(head, i);
    return 0;
}
