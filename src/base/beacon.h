/* SPDX-License-Identifier: MIT */
/*
 * base/beacon.h - the beacon: a page in the profiled process that other processes read. It contains the directory of
 * the profiles and the addresses of the profiler's mappings. The page is private, anonymous and read-only: the kernel
 * then keeps it as a mapping of its own, which readers recognize by its size.
 *
 * The environment does not suffice: a program may overwrite it with its title. Nor does a search for profiles: an idle
 * process has not written one yet.
 */
#pragma once

#include "base/mem.h"

#define DP_BEACON_MAGIC "\177deltaprof 1" /* changes with the layout */
#define DP_BEACON_BYTES 4096u             /* of the struct; its mapping is rounded up to whole pages */

struct dp_beacon {
    char magic[16];
    uint64_t mappings;              /* address of struct dp_beacon_mapping[DP_MEM_MAPPINGS] */
    char out[DP_BEACON_BYTES - 24]; /* the key `out`; "" none */
};

struct dp_beacon_mapping {
    uint64_t start, n_bytes; /* 0: no mapping */
};

/* Creates the beacon, or changes its `out`. -ENOMEM: other processes do not find it. Context: init, one thread. */
int dp_beacon_show(const char *out);
