/* SPDX-License-Identifier: MIT */
/* start.c - what a victim that knows nothing of us needs when it is linked fully static: a start, by DELTAPROF_CONF. */
#include <deltaprof/deltaprof.h>

__attribute__((constructor)) static void start(void)
{
    deltaprof_start(NULL);
}
