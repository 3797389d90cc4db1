/* SPDX-License-Identifier: MIT */
/*
 * trivial.c - an interposer of malloc and free that does nothing: the least that any interposer costs.
 *
 * The benchmarks compare the profiler with it. Pointers first point to resolvers, as in the profiler.
 */
#include <dlfcn.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

static void *first_malloc(size_t n);
static void first_free(void *ptr);
static struct {
    void *(*malloc)(size_t n);
    void (*free)(void *ptr);
} real = {first_malloc, first_free};

static void resolve(void)
{
    void *(*found_malloc)(size_t) = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    void (*found_free)(void *) = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    real.malloc = found_malloc;
    real.free = found_free;
}

static void *first_malloc(size_t n)
{
    resolve();
    return real.malloc(n);
}

static void first_free(void *ptr)
{
    resolve();
    real.free(ptr);
}

EXPORT void *malloc(size_t n)
{
    return real.malloc(n);
}

EXPORT void free(void *ptr)
{
    real.free(ptr);
}
