/* SPDX-License-Identifier: MIT */
/*
 * deltaprof.c - the front desk: the public API, and the only file that knows all floors.
 */
#include <deltaprof/deltaprof.h>

const char *deltaprof_version(void)
{
    return DELTAPROF_VERSION;
}
