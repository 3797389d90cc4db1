/* SPDX-License-Identifier: MIT */
/*
 * base/hash.h - hashes of 64-bit words and byte strings. A hash only selects a place in a table; entries are always
 * compared.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A bijective finaliser: every input bit affects every output bit. */
static inline uint64_t dp_hash_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xE9846AF9B1A615D5u;
    x ^= x >> 32;
    x *= 0xE9846AF9B1A615D5u;
    return x ^ (x >> 28);
}

/* Hashes n bytes at p, with a seed; equal bytes give equal hashes within one process. */
uint64_t dp_hash_bytes(const void *p, size_t n_bytes, uint64_t seed);

/* CRC-32 as in gzip (RFC 1952, section 8): of bytes that follow others whose CRC is `crc`; 0: none. Four bits at a
 * time. */
uint32_t dp_hash_crc32(uint32_t crc, const void *bytes, size_t n_bytes);
