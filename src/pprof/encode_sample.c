/* SPDX-License-Identifier: MIT */
/*
 * pprof/encode_sample.c - writes samples, which are nearly all bytes of a profile. The length of a sample is computed
 * first, so that it can be written directly into the output buffer.
 */
#include "pprof/encode_state.h"

#include <endian.h>

/* The bytes that dp_wire_put_nonzero writes, with a tag of one byte. */
static size_t nonzero_size(uint64_t value)
{
    return value ? 1 + dp_wire_size(value) : 0;
}

static size_t label_size(const struct dp_encode_label *label)
{
    return nonzero_size((uint64_t)label->key) + nonzero_size((uint64_t)label->str) +
           nonzero_size((uint64_t)label->num) + nonzero_size((uint64_t)label->num_unit) + label->extra.n_bytes;
}

static uint8_t *put_label(uint8_t *at, const struct dp_encode_label *label)
{
    at = dp_wire_put(dp_wire_put(at, dp_wire_tag(3, DP_WIRE_BYTES)), label_size(label));
    at = dp_wire_put_nonzero(at, 1, (uint64_t)label->key);
    at = dp_wire_put_nonzero(at, 2, (uint64_t)label->str);
    at = dp_wire_put_nonzero(at, 3, (uint64_t)label->num);
    at = dp_wire_put_nonzero(at, 4, (uint64_t)label->num_unit);
    return put_extra(at, &label->extra);
}

/*
 * Begins a sample of exactly n_bytes, behind its tag: directly in the output buffer if it fits there. NULL: an error.
 */
static uint8_t *begin_exactly(struct dp_encode *e, size_t n_bytes)
{
    size_t n_most = n_bytes + 2 * DP_WIRE_VARINT_MAX + DP_WIRE_SLACK;
    if (n_most > dp_encode_left(e, DP_ENCODE_SAMPLES))
        dp_encode_flush(e);
    e->in_place = n_most <= DP_ENCODE_SAMPLES_BYTES;
    if (!e->in_place)
        return dp_encode_begin(e, n_bytes + DP_WIRE_SLACK);
    if (e->err)
        return NULL;
    return dp_wire_put(dp_wire_put(e->ends[DP_ENCODE_SAMPLES], dp_wire_tag(PROFILE_SAMPLE, DP_WIRE_BYTES)), n_bytes);
}

static void end_exactly(struct dp_encode *e, uint8_t *at)
{
    if (e->in_place)
        e->ends[DP_ENCODE_SAMPLES] = at;
    else
        dp_encode_message(e, DP_ENCODE_SAMPLES, PROFILE_SAMPLE, e->body.at, (size_t)(at - e->body.at));
    e->extra = (struct dp_encode_extra){0};
}

/* The part of a sample behind its locations. */
struct sample_rest {
    const int64_t *values;
    const struct dp_encode_label *labels;
    size_t n_labels, n_value_bytes;
};

/* Begins a sample whose locations take n_ids bytes, and writes their prefix. NULL: an error. */
static uint8_t *begin_sample(struct dp_encode *e, size_t n_ids, struct sample_rest *rest)
{
    size_t n_bytes = e->extra.n_bytes;
    rest->n_value_bytes = 0;
    for (size_t i = 0; i < e->n_types; i++)
        rest->n_value_bytes += dp_wire_size((uint64_t)rest->values[i]);
    for (size_t i = 0; i < rest->n_labels; i++) {
        size_t n_label = label_size(&rest->labels[i]);
        n_bytes += 1 + dp_wire_size(n_label) + n_label;
    }
    n_bytes += n_ids ? 1 + dp_wire_size(n_ids) + n_ids : 0;
    n_bytes += 1 + dp_wire_size(rest->n_value_bytes) + rest->n_value_bytes;
    uint8_t *at = begin_exactly(e, n_bytes);
    return at && n_ids ? dp_wire_put(dp_wire_put(at, dp_wire_tag(1, DP_WIRE_BYTES)), n_ids) : at;
}

static void end_sample(struct dp_encode *e, uint8_t *at, const struct sample_rest *rest)
{
    at = dp_wire_put(dp_wire_put(at, dp_wire_tag(2, DP_WIRE_BYTES)), rest->n_value_bytes);
    for (size_t i = 0; i < e->n_types; i++)
        at = dp_wire_put_id(at, (uint64_t)rest->values[i]);
    for (size_t i = 0; i < rest->n_labels; i++)
        at = put_label(at, &rest->labels[i]);
    end_exactly(e, put_extra(at, &e->extra));
}

void dp_encode_sample(struct dp_encode *e, const uint64_t *locations, size_t n_locations, const int64_t *values,
                      const struct dp_encode_label *labels, size_t n_labels)
{
    struct sample_rest rest = {values, labels, n_labels, 0};
    size_t n_ids = 0;
    for (size_t i = 0; i < n_locations; i++)
        n_ids += dp_wire_size(locations[i]);
    uint8_t *at = begin_sample(e, n_ids, &rest);
    if (!at)
        return;
    for (size_t i = 0; i < n_locations; i++)
        at = dp_wire_put_id(at, locations[i]);
    end_sample(e, at, &rest);
}

/* Writes up to eight bytes; the next write overwrites the bytes beyond the true lengths. */
static inline uint8_t *put_two_refs(uint8_t *at, uint32_t first, uint32_t second)
{
    uint64_t bytes = htole64((first & 0xffffff) | (uint64_t)(second & 0xffffff) << 8 * (first >> 24));
    memcpy(at, &bytes, sizeof bytes);
    return at + (first >> 24) + (second >> 24);
}

void dp_encode_sample_refs(struct dp_encode *e, const uint32_t *refs, size_t n_refs, const int64_t *values,
                           const struct dp_encode_label *labels, size_t n_labels)
{
    struct sample_rest rest = {values, labels, n_labels, 0};
    uint32_t n_ids = 0, n_long = 0;
    for (size_t i = 0; i < n_refs; i++) {
        n_ids += refs[i] >> 24;
        n_long += refs[i] >> 24 == 0;
    }
    uint8_t *at = begin_sample(e, n_ids + 4 * n_long, &rest);
    if (!at)
        return;
    size_t i = 0;
    for (; i + 2 <= n_refs && !n_long; i += 2)
        at = put_two_refs(at, refs[i], refs[i + 1]);
    for (; i < n_refs; i++)
        at = refs[i] >> 24 ? put_two_refs(at, refs[i], 0) : dp_wire_put_id(at, refs[i]);
    end_sample(e, at, &rest);
}
