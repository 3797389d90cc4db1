/* SPDX-License-Identifier: MIT */
/*
 * tool/formats/bytes.h - a message that grows. After a failure, such as missing memory, further additions do nothing;
 * callers check `failed` once, at the end.
 */
#pragma once

#include "base/mem.h"
#include "pprof/wire.h"

#include <stdbool.h>

struct dp_formats_bytes {
    uint8_t *at;
    size_t n, cap;
    bool failed;
};

static inline void put_raw(struct dp_formats_bytes *to, const void *bytes, size_t n_bytes)
{
    if (to->failed || !dp_vec_room(to, n_bytes + 1)) {
        to->failed = true;
        return;
    }
    if (n_bytes)
        memcpy(to->at + to->n, bytes, n_bytes);
    to->n += n_bytes;
}

static inline void put_varint(struct dp_formats_bytes *to, uint64_t value)
{
    uint8_t bytes[DP_WIRE_VARINT_MAX];
    put_raw(to, bytes, (size_t)(dp_wire_put(bytes, value) - bytes));
}

/* As in proto3, a zero is not written. */
static inline void put_number(struct dp_formats_bytes *to, unsigned field, uint64_t value)
{
    uint8_t bytes[2 * DP_WIRE_VARINT_MAX];
    put_raw(to, bytes, (size_t)(dp_wire_put_nonzero(bytes, field, value) - bytes));
}

static inline void put_fixed64(struct dp_formats_bytes *to, unsigned field, uint64_t value)
{
    uint64_t little = htole64(value);
    if (!value)
        return;
    put_varint(to, dp_wire_tag(field, DP_WIRE_FIXED64));
    put_raw(to, &little, sizeof little);
}

/* A field of bytes, a string or a message, also an empty one. */
static inline void put_chunk(struct dp_formats_bytes *to, unsigned field, const void *bytes, size_t n_bytes)
{
    put_varint(to, dp_wire_tag(field, DP_WIRE_BYTES));
    put_varint(to, n_bytes);
    put_raw(to, bytes, n_bytes);
}

static inline void put_message(struct dp_formats_bytes *to, unsigned field, const struct dp_formats_bytes *message)
{
    put_chunk(to, field, message->at, message->n);
    to->failed |= message->failed;
}
