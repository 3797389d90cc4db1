/* SPDX-License-Identifier: MIT */
/* budget.c - allocates argv[1] blocks of many sizes and frees most of them, at random by the seed argv[2]. */
#include <stdlib.h>

enum { N_LIVE = 200, SIZES = 8000 };

int main(int argc, char **argv)
{
    static char *live[N_LIVE];
    long n = argc > 2 ? atol(argv[1]) : 0;
    unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    for (long i = 0; i < n; i++) {
        seed = seed * 1103515245 + 12345;
        char **at = &live[(seed >> 8) % N_LIVE];
        free(*at);
        *at = malloc(64 + (size_t)(i * 37) % SIZES);
        **at = 1;
    }
    return 0;
}
