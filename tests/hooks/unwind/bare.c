/* SPDX-License-Identifier: MIT */
/* bare.c - functions with frames of many forms, compiled without unwind data and with frame pointers, for victim_bare.
 */
#include "bare.h"

#include <alloca.h>
#include <stdlib.h>
#include <string.h>

static APART void bare_plain(int n, called_fn *called)
{
    called(n);
    __asm__ volatile("");
}

/* More on the stack than one instruction can add. */
static APART void bare_large(int n, called_fn *called)
{
    char area[9000];
    memset(area, n, 16);
    __asm__ volatile("" : : "r"(area) : "memory");
    bare_plain(n, called);
    __asm__ volatile("" : : "r"(area) : "memory");
}

/* An unknown number of bytes on the stack. */
static APART void bare_moving(int n, called_fn *called)
{
    char *area = alloca((size_t)n * 16 + 16);
    memset(area, n, 16);
    __asm__ volatile("" : : "r"(area) : "memory");
    bare_large(n, called);
    __asm__ volatile("" : : "r"(area) : "memory");
}

/* Nine words are passed, some on the stack; many registers are saved. */
static APART long bare_many(long a, long b, long c, long d, long e, long f, long g, long h, long i, called_fn *called)
{
    bare_moving((int)a, called);
    return (a ^ b) + (c ^ d) + (e ^ f) + (g ^ h) + i;
}

/* Returns in the middle, and ends in the call of a function that never returns. */
APART void bare_ends(int n, called_fn *called)
{
    if (n < 100) {
        bare_many(n, 2, 3, 4, 5, 6, 7, 8, 9, called);
        __asm__ volatile("");
        return;
    }
    abort();
}

static called_fn *of_compare;

static int bare_compare(const void *a, const void *b)
{
    of_compare(1);
    return *(const int *)a - *(const int *)b;
}

/* libc lies between. */
APART void bare_sorts(called_fn *called)
{
    int numbers[] = {2, 1};
    of_compare = called;
    qsort(numbers, 2, sizeof *numbers, bare_compare);
    __asm__ volatile("" : : "r"(numbers) : "memory");
}

/* Without a frame. */
static APART unsigned bare_leaf(unsigned n, unsigned times)
{
    for (; times; times--)
        n = n * 1664525 + 1013904223;
    return n;
}

APART unsigned bare_spins(unsigned n)
{
    n = bare_leaf(n, 100000) + 1;
    __asm__ volatile("");
    return n;
}
