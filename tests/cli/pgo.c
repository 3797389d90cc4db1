/* SPDX-License-Identifier: MIT */
/* Uses CPU time in a loop with one usual and one unusual branch, and in inlined functions; the argument is how much. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static volatile uint64_t sink;

static inline uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    return x * 6364136223846793005u + 1;
}

static inline uint64_t step(uint64_t x, uint64_t i)
{
    return mix(x) % 16 ? mix(x + i) : x / (i | 1);
}

__attribute__((noinline)) uint64_t hot_loop(uint64_t n)
{
    uint64_t x = n;
    for (uint64_t i = 0; i < n; i++)
        x = step(x, i);
    return x;
}

__attribute__((noinline)) uint64_t never_called(uint64_t n)
{
    return n ? hot_loop(n) : 0;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < n; i++)
        sink += hot_loop(100000 + (uint64_t)i % 7);
    if (n < 0)
        sink += never_called((uint64_t)argc);
    printf("%llu\n", (unsigned long long)sink);
    return 0;
}
