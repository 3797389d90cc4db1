/* SPDX-License-Identifier: MIT */
/*
 * early.c - a dlsym that allocates memory, as dlsym of old C libraries does. Before malloc is known it allocates,
 * reallocates and frees blocks, and keeps one, which the program frees later.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT char *early_kept, *early_moved;

EXPORT void *dlsym(void *handle, const char *name)
{
    static void *(*next)(void *, const char *);
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    for (int i = 0; !next && i < 3; i++)
        next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    char *zeroed = calloc(10, 10);
    for (int i = 0; i < 100; i++)
        if (zeroed[i])
            abort();
    free(zeroed);
    if (!early_kept) {
        early_kept = strcpy(malloc(10), "kept");
        early_moved = strcpy(realloc(NULL, 10), "moved");
        early_moved = realloc(early_moved, 20);
        void *aligned = memalign(256, 10);
        if ((size_t)aligned % 256)
            abort();
        free(aligned);
    }
    return next(handle, name);
}
