/* SPDX-License-Identifier: MIT */
/*
 * base/hash.h - hashes of 64-bit words and byte strings, for hash tables, ids and cheap random numbers. Not for
 * cryptography.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Mixes the bits of a word: every input bit affects every output bit. Different words give different results. */
static inline uint64_t dp_hash_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xE9846AF9B1A615D5u;
    x ^= x >> 32;
    x *= 0xE9846AF9B1A615D5u;
    return x ^ (x >> 28);
}

/* Hashes n bytes at p. Equal bytes give the same hash with the same seed, on processors of one byte order. */
uint64_t dp_hash_bytes(const void *p, size_t n_bytes, uint64_t seed);

/* The CRC-32 of gzip (RFC 1952, section 8). crc: that of the bytes before these; 0 if there are none. Uses a table of
 * 16 words. */
uint32_t dp_hash_crc32(uint32_t crc, const void *bytes, size_t n_bytes);
