/* SPDX-License-Identifier: MIT */
/* tool/push/reply.c - reads the body of a reply: rejected profiles, and why. */
#include "tool/push/body.h"

#include "pprof/wire.h"

struct field {
    uint64_t tag, number; /* number: of a varint; or the length of bytes */
    const uint8_t *bytes;
};

/* Reads one field; returns the byte behind it. NULL: no field of a known wire type is there. */
static const uint8_t *next(const uint8_t *at, const uint8_t *end, struct field *f)
{
    *f = (struct field){0};
    if (!(at = dp_wire_get(at, end, &f->tag)))
        return NULL;
    uint64_t type = f->tag & 7;
    if (type == DP_WIRE_FIXED64 || type == DP_WIRE_FIXED32) {
        size_t n = type == DP_WIRE_FIXED64 ? 8 : 4;
        return n <= (size_t)(end - at) ? at + n : NULL;
    }
    if ((type != DP_WIRE_VARINT && type != DP_WIRE_BYTES) || !(at = dp_wire_get(at, end, &f->number)))
        return NULL;
    f->bytes = at;
    if (type == DP_WIRE_VARINT)
        return at;
    return f->number <= (size_t)(end - at) ? at + f->number : NULL;
}

/*
 * ExportProfilesServiceResponse: partial_success = 1 {rejected_profiles = 1 int64, error_message = 2}; fields stand in
 * any order. Source: opentelemetry-proto, collector/profiles/v1development. Bytes that are no such message reject
 * nothing.
 */
int64_t dp_push_body_rejected(const struct dp_push_target *target, const void *reply, size_t n_bytes,
                              struct dp_push_words *why)
{
    const uint8_t *at = reply, *end = at + n_bytes;
    struct field outer, inner;
    uint64_t rejected = 0;
    *why = (struct dp_push_words){"", 0};
    while (target->protocol == DP_PUSH_OTLP && at < end && (at = next(at, end, &outer))) {
        if (outer.tag != dp_wire_tag(1, DP_WIRE_BYTES))
            continue;
        const uint8_t *in = outer.bytes, *in_end = in + outer.number;
        while (in < in_end && (in = next(in, in_end, &inner))) {
            if (inner.tag == dp_wire_tag(1, DP_WIRE_VARINT))
                rejected = inner.number;
            else if (inner.tag == dp_wire_tag(2, DP_WIRE_BYTES))
                *why = (struct dp_push_words){(const char *)inner.bytes, inner.number};
        }
    }
    return (int64_t)rejected;
}
