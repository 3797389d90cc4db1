/* SPDX-License-Identifier: MIT */
/*
 * victim_overrun [N] - uses all functions of malloc, writes N bytes more than it asked for, and frees the block. Ends
 * with status 5, unless something checks blocks.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    size_t n_more = argc > 1 ? (size_t)atoi(argv[1]) : 0;
    for (size_t i = 1; i < 200; i++) {
        void *aligned;
        if (posix_memalign(&aligned, 64, i))
            return 1;
        free(realloc(malloc(i), 2 * i));
        free(realloc(aligned, 2 * i));
        free(reallocarray(calloc(i, 3), i, 5));
        free(realloc(aligned_alloc(64, 64), i));
        free(memalign(32, i));
        free(valloc(i));
        free(strdup("text"));
    }
    char *block = malloc(20);
    memset(block, 7, 20 + n_more);
    free(block);
    return 5;
}
