/* SPDX-License-Identifier: MIT */
/*
 * victim_age.c - allocates blocks in three functions. It never frees the blocks of keeps(), frees those of borrows() at
 * once, and frees those of lends() after it read a byte of the standard input. Then it prints a lower and an upper
 * bound of the sum of the lifetimes of the lends() blocks, in ns, and waits for another byte.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { N = 100 };

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

__attribute__((noinline, noclone)) void *keeps(void)
{
    void *block = malloc(1000);
    __asm__ volatile("" ::: "memory");
    return block;
}

__attribute__((noinline, noclone)) void *lends(void)
{
    void *block = malloc(2000);
    __asm__ volatile("" ::: "memory");
    return block;
}

__attribute__((noinline, noclone)) void *borrows(void)
{
    void *block = malloc(3000);
    __asm__ volatile("" ::: "memory");
    return block;
}

static void *volatile kept[2 * N], *volatile lent[N];

int main(void)
{
    char c;
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int i = 0; i < N; i++)
        kept[i] = keeps();
    for (int i = 0; i < N; i++)
        free(borrows());
    long long before = now();
    for (int i = 0; i < N; i++)
        lent[i] = lends();
    long long after = now();
    (void)!read(0, &c, 1);
    long long freed_from = now();
    for (int i = 0; i < N; i++)
        free(lent[i]);
    long long freed_to = now();
    for (int i = 0; i < N; i++)
        kept[N + i] = keeps();
    printf("%lld %lld\n", N * (freed_from - after), N * (freed_to - before));
    (void)!read(0, &c, 1);
    return 0;
}
