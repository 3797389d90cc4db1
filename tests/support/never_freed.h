/* SPDX-License-Identifier: MIT */
/*
 * tests/support/never_freed.h - the other allocation functions for a test allocator with its own malloc, which never
 * reuses memory and stores the size in the eight bytes before a block.
 */
#pragma once

#include <stddef.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void *malloc(size_t n_bytes);

EXPORT void *calloc(size_t count, size_t size)
{
    return malloc(count * size); /* new memory is zero */
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
