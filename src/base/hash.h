/* SPDX-License-Identifier: MIT */
/* base/hash.h - mixing of 64-bit words; a hash places, it never identifies. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A bijective finaliser: every input bit reaches every output bit. */
static inline uint64_t dp_hash_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xE9846AF9B1A615D5u;
    x ^= x >> 32;
    x *= 0xE9846AF9B1A615D5u;
    return x ^ (x >> 28);
}

/* n bytes at p, seeded; equal bytes give equal hashes within one process. */
uint64_t dp_hash_bytes(const void *p, size_t n_bytes, uint64_t seed);
