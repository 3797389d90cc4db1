/* SPDX-License-Identifier: MIT */
/*
 * pprof/wire.h - reads and writes protobuf's wire format: varints, tags and length-prefixed fields.
 *
 * Source: protobuf.dev/programming-guides/encoding. Inline, because a profile is millions of small varints.
 */
#pragma once

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum dp_wire_type { DP_WIRE_VARINT = 0, DP_WIRE_FIXED64 = 1, DP_WIRE_BYTES = 2, DP_WIRE_FIXED32 = 5 };

#define DP_WIRE_VARINT_MAX 10 /* bytes of the longest varint */

#define dp_wire_tag(field, type) ((uint32_t)(field) << 3 | (type))

static inline size_t dp_wire_size(uint64_t value)
{
    unsigned top_bit = 63 ^ (unsigned)__builtin_clzll(value | 1);
    return (top_bit * 9 + 73) / 64; /* top_bit / 7 + 1 for all 64 */
}

/* Writes 1 to 10 bytes; returns their end. */
static inline uint8_t *dp_wire_put(uint8_t *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

#define DP_WIRE_SLACK 8 /* bytes behind the end that dp_wire_put_id may overwrite */

/*
 * The same for long runs of small numbers, whose lengths a branch could not predict: writes four bytes and advances by
 * the varint's true length.
 */
static inline uint8_t *dp_wire_put_id(uint8_t *at, uint64_t value)
{
    if (value >> 28)
        return dp_wire_put(at, value);
    size_t n = dp_wire_size(value);
    uint32_t v = (uint32_t)value;
    uint32_t spread = (v & 0x7f) | (v & 0x3f80) << 1 | (v & 0x1fc000) << 2 | (v & 0xfe00000) << 3;
    spread |= 0x808080u & ((1u << 8 * (n - 1)) - 1);
    spread = htole32(spread);
    memcpy(at, &spread, 4);
    return at + n;
}

/* The same for addresses, which have up to eight bytes: writes eight. */
static inline uint8_t *dp_wire_put_address(uint8_t *at, uint64_t v)
{
    if (v >> 56)
        return dp_wire_put(at, v);
    size_t n = dp_wire_size(v);
    v = (v & 0x000000000fffffffu) | (v & 0x00fffffff0000000u) << 4;
    v = (v & 0x00003fff00003fffu) | (v & 0x0fffc0000fffc000u) << 2;
    v = (v & 0x007f007f007f007fu) | (v & 0x3f803f803f803f80u) << 1;
    v = htole64(v | (0x8080808080808080u & (((uint64_t)1 << 8 * (n - 1)) - 1)));
    memcpy(at, &v, sizeof v);
    return at + n;
}

static inline uint8_t *dp_wire_put_field(uint8_t *at, unsigned field, uint64_t value)
{
    return dp_wire_put(dp_wire_put(at, dp_wire_tag(field, DP_WIRE_VARINT)), value);
}

/* Writes a varint field; as in proto3, a zero is not written. */
static inline uint8_t *dp_wire_put_nonzero(uint8_t *at, unsigned field, uint64_t value)
{
    return value ? dp_wire_put_field(at, field, value) : at;
}

static inline uint8_t *dp_wire_put_bytes(uint8_t *at, unsigned field, const void *bytes, size_t n_bytes)
{
    at = dp_wire_put(dp_wire_put(at, dp_wire_tag(field, DP_WIRE_BYTES)), n_bytes);
    memcpy(at, bytes, n_bytes);
    return at + n_bytes;
}

/* The part of dp_wire_get for more than one byte. */
static inline const uint8_t *dp_wire_get_long(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    uint64_t sum = 0;
    for (unsigned shift = 0; shift < 64 && at < end; shift += 7) {
        uint8_t byte = *at++;
        sum |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = sum;
            return shift < 63 || byte < 2 ? at : NULL;
        }
    }
    return NULL;
}

/*
 * Reads the varint at `at`; returns the byte behind it. NULL: it does not end before `end`, or has more than 64 bits.
 */
static inline const uint8_t *dp_wire_get(const uint8_t *at, const uint8_t *end, uint64_t *value)
{
    if (__builtin_expect(at < end && *at < 0x80, 1)) {
        *value = *at;
        return at + 1;
    }
    return dp_wire_get_long(at, end, value);
}

/* The eight bytes at `at`; bit 7 of each is set in *ends where a varint ends. */
static inline uint64_t dp_wire_word(const uint8_t *at, uint64_t *ends)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    word = le64toh(word);
    *ends = ~word & 0x8080808080808080u;
    return word;
}

/* Joins the 7-bit bytes of each half of the word into a number. */
static inline uint64_t dp_wire_squeeze_halves(uint64_t w)
{
    w = (w & 0x007f007f007f007fu) | (w & 0x7f007f007f007f00u) >> 1;
    return (w & 0x00003fff00003fffu) | (w & 0x3fff00003fff0000u) >> 2;
}

/* Joins the eight 7-bit bytes of the word into a number. */
static inline uint64_t dp_wire_squeeze(uint64_t w)
{
    w = dp_wire_squeeze_halves(w);
    return (w & 0x000000000fffffffu) | (w & 0x0fffffff00000000u) >> 4;
}
