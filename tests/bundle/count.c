/* SPDX-License-Identifier: MIT */
/*
 * count - linked into a program of one thread: counts its allocations and those of libc, and writes their number and
 * their bytes to standard output at the end.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static uint64_t n_allocations, n_bytes;
static int depth; /* of calls: a function of libc may call another one */

#define DEFINE(name, parameters, arguments, size)                           \
    void *name parameters                                                   \
    {                                                                       \
        static void *(*next)parameters;                                     \
        if (!next)                                                          \
            next = (void *(*)parameters)(uintptr_t)dlsym(RTLD_NEXT, #name); \
        depth++;                                                            \
        void *block = next arguments;                                       \
        depth--;                                                            \
        if (block && !depth) {                                              \
            n_allocations++;                                                \
            n_bytes += (size);                                              \
        }                                                                   \
        return block;                                                       \
    }

DEFINE(malloc, (size_t size), (size), size)
DEFINE(calloc, (size_t n, size_t size), (n, size), n *size)
DEFINE(realloc, (void *old, size_t size), (old, size), size)
DEFINE(aligned_alloc, (size_t alignment, size_t size), (alignment, size), size)

__attribute__((destructor)) static void print(void)
{
    char line[64];
    int n = snprintf(line, sizeof line, "%llu %llu\n", (unsigned long long)n_allocations, (unsigned long long)n_bytes);
    if (write(STDOUT_FILENO, line, (size_t)n) != n)
        _exit(1);
}
