/* SPDX-License-Identifier: MIT */
/* A library that is opened and closed; built twice, of the same size, under two names. */
__attribute__((visibility("default"))) int plugin_function(int x);

int plugin_function(int x)
{
    return x * PLUGIN + 1;
}
