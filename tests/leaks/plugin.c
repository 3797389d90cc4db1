/* SPDX-License-Identifier: MIT */
/* plugin.c - a plugin that never frees its memory. */
#include <stdlib.h>

__attribute__((noinline)) static char *plugin_transform(size_t n)
{
    char *result = malloc(n);
    *result = 1;
    return result;
}

__attribute__((visibility("default"))) void plugin_work(int n);

void plugin_work(int n)
{
    for (int i = 0; i < n; i++)
        plugin_transform(9000);
}
