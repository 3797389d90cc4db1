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

uint32_t dp_hash_crc32(uint32_t crc, const void *bytes, size_t n_bytes)
{
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                       0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const uint8_t *at = bytes;
    crc = ~crc;
    for (size_t i = 0; i < n_bytes; i++) {
        crc ^= at[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}
