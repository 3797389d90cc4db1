/* SPDX-License-Identifier: MIT */
/*
 * tests/support/never_freed.h - what an allocator needs besides a malloc of its own, when memory is never used twice
 * and the eight bytes before a block hold its size.
 */
#pragma once

#include <stddef.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void *malloc(size_t n_bytes);

EXPORT void *calloc(size_t count, size_t size)
{
    return malloc(count * size); /* fresh: zero */
}

EXPORT void *realloc(void *old, size_t n_bytes)
{
    void *ptr = malloc(n_bytes);
    if (ptr && old) {
        size_t size = *(size_t *)((char *)old - 8);
        memcpy(ptr, old, size < n_bytes ? size : n_bytes);
    }
    return ptr;
}

EXPORT void free(void *ptr) {}
