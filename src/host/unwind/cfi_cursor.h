/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/cfi_cursor.h - reads the bytes of .eh_frame: numbers, LEB128, encoded pointers. A cursor that reached its
 * end returns zeros and stays `bad`.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct dp_cfi_cursor {
    const uint8_t *at, *end;
    bool bad;
};

static inline bool dp_cfi_cursor_read(struct dp_cfi_cursor *c, void *out, size_t n_bytes)
{
    if ((size_t)(c->end - c->at) < n_bytes) {
        c->bad = true;
        c->at = c->end;
        memset(out, 0, n_bytes);
        return false;
    }
    memcpy(out, c->at, n_bytes);
    c->at += n_bytes;
    return true;
}

static inline void dp_cfi_cursor_skip(struct dp_cfi_cursor *c, uint64_t n_bytes)
{
    if ((uint64_t)(c->end - c->at) < n_bytes) {
        c->bad = true;
        c->at = c->end;
    } else {
        c->at += n_bytes;
    }
}

#define READER(name, type)                           \
    static inline type name(struct dp_cfi_cursor *c) \
    {                                                \
        type value;                                  \
        dp_cfi_cursor_read(c, &value, sizeof value); \
        return value;                                \
    }
READER(dp_cfi_cursor_u8, uint8_t)
READER(dp_cfi_cursor_u16, uint16_t)
READER(dp_cfi_cursor_u32, uint32_t)
READER(dp_cfi_cursor_u64, uint64_t)
#undef READER

static inline uint64_t dp_cfi_cursor_uleb(struct dp_cfi_cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = dp_cfi_cursor_u8(c);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

static inline int64_t dp_cfi_cursor_sleb(struct dp_cfi_cursor *c)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
        byte = dp_cfi_cursor_u8(c);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    if (byte & 0x40 && shift < 64)
        value |= ~(uint64_t)0 << shift;
    return (int64_t)value;
}

enum {
    DP_PE_OMIT = 0xff,
    DP_PE_INDIRECT = 0x80,
    DP_PE_PCREL = 0x10,
    DP_PE_ABSOLUTE = 0,
    DP_PE_ALIGNED = 0x50,
};

/* Reads a pointer in one of the encodings that are used for addresses of code; any other makes the cursor bad. */
static inline uint64_t dp_cfi_cursor_encoded(struct dp_cfi_cursor *c, uint8_t encoding)
{
    uint64_t base = (encoding & 0x70) == DP_PE_PCREL ? (uintptr_t)c->at : 0, value;
    switch (encoding & 0x0f) {
    case 0x00:
    case 0x04:
    case 0x0c:
        value = dp_cfi_cursor_u64(c);
        break;
    case 0x01:
        value = dp_cfi_cursor_uleb(c);
        break;
    case 0x02:
        value = dp_cfi_cursor_u16(c);
        break;
    case 0x03:
        value = dp_cfi_cursor_u32(c);
        break;
    case 0x09:
        value = (uint64_t)dp_cfi_cursor_sleb(c);
        break;
    case 0x0a:
        value = (uint64_t)(int16_t)dp_cfi_cursor_u16(c);
        break;
    case 0x0b:
        value = (uint64_t)(int32_t)dp_cfi_cursor_u32(c);
        break;
    default:
        c->bad = true;
        return 0;
    }
    uint8_t relative = encoding & 0x70;
    if (encoding & DP_PE_INDIRECT || (relative != DP_PE_ABSOLUTE && relative != DP_PE_PCREL))
        c->bad = true;
    return base + value;
}
