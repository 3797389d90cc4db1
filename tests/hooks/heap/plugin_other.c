/* SPDX-License-Identifier: MIT */
/* plugin_other.c - as large as plugin.c, so that it is often mapped at the same address, but with other frames. */
#include <stdlib.h>

__attribute__((visibility("default"))) void *plugin_make(size_t n_bytes);

static __attribute__((noinline)) void *other_make(size_t n_bytes)
{
    void *volatile pointers[8] = {malloc(n_bytes)}; /* a larger frame than the other's */
    return pointers[0];
}

void *plugin_make(size_t n_bytes)
{
    void *ptr = other_make(n_bytes);
    __asm__ volatile("" ::"r"(ptr) : "memory");
    return ptr;
}
