/* SPDX-License-Identifier: MIT */
/*
 * tool/model/repeat.c - keeps the bytes of one sample per row, in one buffer.
 *
 * Invariant while is_on: the kept bytes were accepted in a profile whose ids and indexes have the same meaning now. So
 * equal bytes are the same row, and need no second check. Only the bytes of a row's first sample are kept: another
 * sample of the row with other bytes is parsed as usual, and memory does not grow. For producers that number anew in
 * each profile is_on stays false, at no cost.
 */
#include "tool/model/repeat.h"

#include "pprof/wire.h"

#include <errno.h>
#include <string.h>

#define LOCATIONS dp_wire_tag(1, DP_WIRE_BYTES)
#define VALUES    dp_wire_tag(2, DP_WIRE_BYTES)

void dp_model_repeat_begin(struct dp_model_repeat *r, const struct dp_decode *d, bool ids_hold)
{
    r->is_on = ids_hold && d->location_ids.in_order;
    if (r->is_on)
        return;
    dp_vec_clear(&r->bytes);
    dp_vec_clear(&r->offsets);
}

/* Reads the field with that tag; returns the byte behind it. NULL: another field. */
static const uint8_t *take_field(const uint8_t *base, const uint8_t *at, const uint8_t *end, uint32_t tag,
                                 struct dp_decode_span *span)
{
    uint64_t n_bytes;
    if (at == end || *at != tag || !(at = dp_wire_get(at + 1, end, &n_bytes)) || n_bytes > (size_t)(end - at))
        return NULL;
    *span = (struct dp_decode_span){(uint32_t)(at - base), (uint32_t)n_bytes};
    return at + n_bytes;
}

bool dp_model_repeat_split(const struct dp_model_repeat *r, const struct dp_decode *d, size_t i,
                           struct dp_model_repeat_sample *s)
{
    const uint8_t *at = d->bytes + d->samples.at[i].offset, *end = at + d->samples.at[i].n_bytes;
    if (!r->is_on || !(at = take_field(d->bytes, at, end, LOCATIONS, &s->locations)) ||
        !(at = take_field(d->bytes, at, end, VALUES, &s->values)))
        return false;
    s->rest = (struct dp_decode_span){(uint32_t)(at - d->bytes), (uint32_t)(end - at)};
    return true;
}

bool dp_model_repeat_is(const struct dp_model_repeat *r, const struct dp_decode *d,
                        const struct dp_model_repeat_sample *s, uint32_t row)
{
    if (row >= r->offsets.n || !r->offsets.at[row])
        return false;
    const uint8_t *known = r->bytes.at + r->offsets.at[row] - 1;
    uint32_t n_bytes[2];
    memcpy(n_bytes, known, sizeof n_bytes);
    known += sizeof n_bytes;
    return n_bytes[0] == s->locations.n_bytes && n_bytes[1] == s->rest.n_bytes &&
           !memcmp(known, d->bytes + s->locations.offset, n_bytes[0]) &&
           !memcmp(known + n_bytes[0], d->bytes + s->rest.offset, n_bytes[1]);
}

/*
 * Whether `rest` consists of labels only. Samples with locations or values in several pieces, or with unknown fields,
 * are not kept.
 */
static int are_labels(const struct dp_decode *d, struct dp_decode_span rest)
{
    const uint8_t *at = d->bytes + rest.offset, *end = at + rest.n_bytes;
    struct dp_decode_span label;
    while (at && at < end)
        at = take_field(d->bytes, at, end, dp_wire_tag(3, DP_WIRE_BYTES), &label);
    return at != NULL;
}

int dp_model_repeat_keep(struct dp_model_repeat *r, const struct dp_decode *d, const struct dp_model_repeat_sample *s,
                         uint32_t row)
{
    uint32_t n_bytes[2] = {s->locations.n_bytes, s->rest.n_bytes};
    size_t n_all = sizeof n_bytes + n_bytes[0] + n_bytes[1];
    if ((row < r->offsets.n && r->offsets.at[row]) || r->bytes.n + n_all >= UINT32_MAX || !are_labels(d, s->rest))
        return 0;
    if (row >= r->offsets.n) {
        size_t n_more = row + 1 - r->offsets.n;
        uint32_t *more = dp_vec_room(&r->offsets, n_more);
        if (!more)
            return -ENOMEM;
        memset(more, 0, n_more * sizeof *more);
        r->offsets.n += n_more;
    }
    uint8_t *to = dp_vec_room(&r->bytes, n_all);
    if (!to)
        return -ENOMEM;
    memcpy(to, n_bytes, sizeof n_bytes);
    memcpy(to + sizeof n_bytes, d->bytes + s->locations.offset, n_bytes[0]);
    memcpy(to + sizeof n_bytes + n_bytes[0], d->bytes + s->rest.offset, n_bytes[1]);
    r->offsets.at[row] = (uint32_t)r->bytes.n + 1;
    r->bytes.n += n_all;
    return 0;
}

void dp_model_repeat_fini(struct dp_model_repeat *r)
{
    dp_vec_fini(&r->bytes);
    dp_vec_fini(&r->offsets);
}
