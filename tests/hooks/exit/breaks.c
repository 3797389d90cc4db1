/* SPDX-License-Identifier: MIT */
/*
 * breaks.c - stands behind the profiler and crashes, once, in the thread that is about to give a profile its name: a
 * profile of kind heap, or the kind that BREAKS names.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int renameat2(int from_dir, const char *from, int to_dir, const char *to,
                                                     unsigned flags)
{
    static volatile int has_crashed;
    const char *kind = getenv("BREAKS");
    if (!has_crashed && strstr(to, kind ? kind : ".heap.")) {
        has_crashed = 1;
        *(volatile int *)16 = 1;
    }
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}
