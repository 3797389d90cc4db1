/* SPDX-License-Identifier: MIT */
/* victim_namesakes.c - has functions of its own with the names of functions of allocators. Nobody may call them. */
#include <stdlib.h>

#define NAMESAKE(name)                     \
    __attribute__((used)) void name(void); \
    void name(void)                        \
    {                                      \
        abort();                           \
    }
NAMESAKE(mallctl)
NAMESAKE(mallocx)
NAMESAKE(sdallocx)
NAMESAKE(je_mallctl)
NAMESAKE(je_mallocx)
NAMESAKE(MallocHook_AddNewHook)
NAMESAKE(MallocHook_AddDeleteHook)
NAMESAKE(tc_malloc)
NAMESAKE(tc_free)

int main(void)
{
    free(malloc(1000));
    return 5;
}
