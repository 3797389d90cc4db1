/* SPDX-License-Identifier: MIT */
/* start.c - starts the profiler by DELTAPROF_CONF in a fully static victim that does not call it itself. */
#include <deltaprof/deltaprof.h>

__attribute__((constructor)) static void start(void)
{
    deltaprof_start(NULL);
}
