/* SPDX-License-Identifier: MIT */
/* base/hash.c - hashes byte strings (names, build-ids); not used on hot paths. */
#include "base/hash.h"

#include <string.h>

uint64_t dp_hash_bytes(const void *p, size_t n_bytes, uint64_t seed)
{
    const unsigned char *at = p;
    uint64_t hash = seed ^ (n_bytes * 0x9E3779B97F4A7C15u);
    for (; n_bytes >= 8; n_bytes -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = dp_hash_mix(hash ^ word);
    }
    uint64_t tail = 0;
    memcpy(&tail, at, n_bytes);
    return dp_hash_mix(hash ^ tail);
}
