/* SPDX-License-Identifier: MIT */
/* A library that is opened and closed; built under several names, alike but for a number. */
#define EXPORT __attribute__((visibility("default"), noinline))

EXPORT int plugin_function(int x);
EXPORT int plugin_call(int (*fn)(void));

int plugin_function(int x)
{
    return x * PLUGIN + 1;
}

/* Stands on the stack while fn runs. */
int plugin_call(int (*fn)(void))
{
    return fn() * PLUGIN + 1;
}
