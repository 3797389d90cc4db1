/* SPDX-License-Identifier: MIT */
/*
 * base/beacon.h - the beacon: a page in the profiled process that other processes read. It contains the directory of
 * the profiles, how to ask the process for one, and the addresses of the profiler's mappings. The page is private,
 * anonymous and read-only: the kernel then keeps it as a mapping of its own, which readers recognize by its size.
 *
 * The environment does not suffice: a program may overwrite it with its title. Nor does a search for profiles: an idle
 * process has not written one yet.
 */
#pragma once

#include "base/mem.h"

#define DP_BEACON_MAGIC "\177deltaprof 2" /* changes with the layout */
#define DP_BEACON_BYTES 4096u             /* of the struct; its mapping is rounded up to whole pages */
#define DP_BEACON_TEXT  1024u

struct dp_beacon {
    char magic[16];
    uint64_t mappings;           /* address of struct dp_beacon_mapping[DP_MEM_MAPPINGS] */
    char out[DP_BEACON_TEXT];    /* the key `out`; "" none */
    char listen[DP_BEACON_TEXT]; /* the key `listen`; "" none */
    char token[DP_BEACON_TEXT];  /* the key `token`, the name of a file; "" none */
    int32_t signal;              /* the key `signal`; 0: none */
    char rest[DP_BEACON_BYTES - 28 - 3 * DP_BEACON_TEXT];
};

struct dp_beacon_mapping {
    uint64_t start, n_bytes; /* 0: no mapping */
};

/* Creates the beacon, or changes what it tells. -ENOMEM: other processes do not find it. Context: init, one thread. */
int dp_beacon_show(const char *out, const char *listen, const char *token, int signal);
