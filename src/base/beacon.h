/* SPDX-License-Identifier: MIT */
/*
 * base/beacon.h - a page in the profiled process, for other processes to read. It has the directory of the profiles,
 * and the addresses of the profiler's own mappings. The page is private, anonymous and read-only, so the kernel does
 * not join it with a neighbour.
 *
 * Other sources do not suffice: a program may overwrite its environment, which had `out`, with its title; and an idle
 * process has not written a profile yet.
 */
#pragma once

#include "base/mem.h"

#define DP_BEACON_MAGIC "\177deltaprof 1" /* changes with the layout */
#define DP_BEACON_BYTES 4096u             /* the layout's; its mapping is as many whole pages as that takes */

struct dp_beacon {
    char magic[16];
    uint64_t mappings;              /* address of struct dp_beacon_mapping[DP_MEM_MAPPINGS] */
    char out[DP_BEACON_BYTES - 24]; /* the key `out`; "" none */
};

struct dp_beacon_mapping {
    uint64_t start, n_bytes; /* 0: no mapping */
};

/* Shows the beacon, or changes it. -ENOMEM: there is none. Context: init, one thread. */
int dp_beacon_show(const char *out);
