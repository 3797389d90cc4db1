/* SPDX-License-Identifier: MIT */
/* plugin.c - a library that victims open and close. */
#include <stdlib.h>

__attribute__((visibility("default"))) void *plugin_make(size_t n_bytes);

__attribute__((noinline)) void *plugin_make(size_t n_bytes)
{
    void *ptr = malloc(n_bytes);
    __asm__ volatile("" ::"r"(ptr) : "memory"); /* no tail call: malloc's caller is this function */
    return ptr;
}
