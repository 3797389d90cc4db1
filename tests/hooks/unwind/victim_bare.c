/* SPDX-License-Identifier: MIT */
/*
 * victim_bare [cpu] - allocates below functions without unwind data (bare.c), and in the handler of a signal that
 * interrupts one; or computes in them for 300 ms.
 */
#include "bare.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void *volatile kept;
static volatile sig_atomic_t handled;

static APART void allocates(int n)
{
    kept = malloc((size_t)n * 100);
}

static APART void allocates_for_sort(int n)
{
    kept = malloc((size_t)n * 1000);
}

static APART void handles(int signal)
{
    kept = malloc(20000);
    handled = 1;
}

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int main(int argc, char **argv)
{
    unsigned n = 1;
    if (argc > 1) {
        for (int64_t begin = cpu_ns(); cpu_ns() - begin < 300000000;)
            for (int i = 0; i < 20; i++)
                n = bare_spins(n);
        return n == 0;
    }
    for (int i = 1; i <= 32; i++)
        bare_ends(i, allocates);
    bare_sorts(allocates_for_sort);
    signal(SIGALRM, handles);
    ualarm(1000, 0);
    while (!handled)
        n = bare_spins(n);
    return n == 0;
}
