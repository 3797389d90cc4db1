/* SPDX-License-Identifier: MIT */
/* formats/fields.h - iterates over the fields of a message on the wire. */
#pragma once

#include "pprof/wire.h"

#include <stdbool.h>

struct span {
    const uint8_t *at, *end;
};

struct field {
    unsigned number, type;
    uint64_t value;    /* of a varint or a fixed number */
    struct span bytes; /* of a field of bytes; else empty, but not NULL */
};

/* Takes the next field off the message. 1; 0: the message is at its end; -1: it is broken. */
static inline int next_field(struct span *message, struct field *f)
{
    uint64_t tag, n = 0;
    const uint8_t *at = message->at;
    if (at >= message->end)
        return 0;
    *f = (struct field){.bytes = {at, at}}; /* not NULL: readers subtract and compare */
    if (!(at = dp_wire_get(at, message->end, &tag)) || tag >> 3 == 0 || tag >> 32)
        return -1;
    f->number = (unsigned)(tag >> 3);
    f->type = tag & 7;
    size_t rest = (size_t)(message->end - at), fixed = f->type == DP_WIRE_FIXED64 ? 8 : 4;
    switch (f->type) {
    case DP_WIRE_VARINT:
        if (!(at = dp_wire_get(at, message->end, &f->value)))
            return -1;
        break;
    case DP_WIRE_BYTES:
        if (!(at = dp_wire_get(at, message->end, &n)) || n > (uint64_t)(message->end - at))
            return -1;
        f->bytes = (struct span){at, at + n};
        at += n;
        break;
    case DP_WIRE_FIXED64:
    case DP_WIRE_FIXED32:
        if (rest < fixed)
            return -1;
        memcpy(&f->value, at, fixed);
        f->value = le64toh(f->value);
        at += fixed;
        break;
    default:
        return -1;
    }
    message->at = at;
    return 1;
}

/* Takes the next number of a repeated field, packed or not, off the field. False: there is none. */
static inline bool next_number(struct field *f, uint64_t *value)
{
    *value = 0;
    if (f->type != DP_WIRE_BYTES) {
        *value = f->value;
        bool is_there = f->type == DP_WIRE_VARINT || f->type == DP_WIRE_FIXED64;
        f->type = DP_WIRE_FIXED32; /* taken */
        return is_there;
    }
    if (f->bytes.at >= f->bytes.end)
        return false;
    const uint8_t *at = dp_wire_get(f->bytes.at, f->bytes.end, value);
    f->bytes.at = at ? at : f->bytes.end;
    return at != NULL;
}
