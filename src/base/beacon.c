/* SPDX-License-Identifier: MIT */
/*
 * base/beacon.c - fills the beacon: a page in which other processes find the directory of the profiles and the
 * addresses of the profiler's mappings.
 */
#include "base/beacon.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

_Static_assert(sizeof(struct dp_beacon) == DP_BEACON_BYTES, "the struct fills its page");

static struct dp_beacon *beacon;

int dp_beacon_show(const char *out, const char *listen, const char *token, int signal)
{
    bool is_new = !beacon;
    if (is_new)
        beacon = dp_mem_table(sizeof *beacon); /* never unmapped */
    if (!beacon || (!is_new && mprotect(beacon, sizeof *beacon, PROT_READ | PROT_WRITE)))
        return -ENOMEM;
    memcpy(beacon->magic, DP_BEACON_MAGIC, sizeof DP_BEACON_MAGIC);
    beacon->mappings = (uintptr_t)dp_mem_mappings();
    strncpy(beacon->out, out, sizeof beacon->out - 1);
    strncpy(beacon->listen, listen, sizeof beacon->listen - 1);
    strncpy(beacon->token, token, sizeof beacon->token - 1);
    beacon->signal = signal;
    return mprotect(beacon, sizeof *beacon, PROT_READ) ? -ENOMEM : 0;
}
