/* SPDX-License-Identifier: MIT */
/*
 * pprof/decode_sample.c - parses one sample. A profile is mostly samples, and a sample mostly location ids: this is the
 * hot loop of reading.
 */
#include "pprof/decode_fields.h"

#include <string.h>

/* Ids still to be read, and where to write their positions. */
struct lane {
    const uint8_t *at, *end;
    uint32_t *to;
};

/*
 * Reads two ids of one to four bytes from one word, without a branch on their lengths, which could not be predicted.
 * Returns 0 and reads nothing in all other cases. The eight bytes at lane->at must be readable; is_within says that
 * they all belong to the lane.
 */
static inline int take_pair(struct lane *lane, int is_within, uint32_t n_locations)
{
    uint64_t ends, word = dp_wire_word(lane->at, &ends), second = ends & (ends - 1);
    if (!second)
        return 0;
    unsigned first_end = (unsigned)__builtin_ctzll(ends), second_end = (unsigned)__builtin_ctzll(second);
    if (!is_within && second_end / 8 >= (size_t)(lane->end - lane->at))
        return 0;
    /* x - 1 has all bits below the lowest bit of x set; above it the bits of x, which are 0 in word. */
    uint64_t low = word & (ends - 1), high = (word & (second - 1)) >> first_end >> 1;
    if ((low | high) >> 32)
        return 0;
    uint64_t both = dp_wire_squeeze_halves(low | high << 32);
    /* 0, which is not an id, becomes the largest number */
    uint32_t a = (uint32_t)both - 1, b = (uint32_t)(both >> 32) - 1;
    if (a >= n_locations || b >= n_locations)
        return 0;
    lane->to[0] = a;
    lane->to[1] = b;
    lane->to += 2;
    lane->at += second_end / 8 + 1;
    return 1;
}

/* Reads the rest of a lane, one id at a time. */
static int take_rest(const struct dp_decode *d, const struct fields *f, struct lane *lane)
{
    while (lane->at < lane->end) {
        uint64_t id;
        const uint8_t *start = lane->at;
        lane->at = dp_wire_get(start, lane->end, &id);
        if (!lane->at)
            return fail_at(f, start, "location_id", "is a number that does not end");
        uint32_t found = ids_find(&d->location_ids, id);
        if (!found)
            return fail_number(f, start, "location_id", id, "is no location's");
        *lane->to++ = found - 1;
    }
    return 0;
}

/*
 * The inner loop of reading. The start of an id is known only when the one before it was read, so the processor waits;
 * therefore a long list is read from its beginning and from its middle at the same time. `to` has room for one number
 * per byte.
 */
static int take_packed(const struct dp_decode *d, const struct fields *f, struct lane *all)
{
    const uint8_t *all_end = d->bytes + d->n_bytes, *middle = all->at + (all->end - all->at) / 2;
    uint32_t n_locations = d->location_ids.in_order ? (uint32_t)d->locations.n : 0;
    while (middle > all->at && middle < all->end && middle[-1] >= 0x80)
        middle++;
    struct lane left = {all->at, middle, all->to}, right = {middle, all->end, all->to + (middle - all->at)};
    const uint32_t *right_start = right.to;
    int both = 1;
    while (both && left.end - left.at >= 8 && right.end - right.at >= 8)
        both = take_pair(&left, 1, n_locations) & take_pair(&right, 1, n_locations);
    while (left.at < left.end && all_end - left.at >= 8 && take_pair(&left, 0, n_locations)) {
    }
    while (right.at < right.end && all_end - right.at >= 8 && take_pair(&right, 0, n_locations)) {
    }
    int err = take_rest(d, f, &left);
    if (!err)
        err = take_rest(d, f, &right);
    memmove(left.to, right_start, (size_t)(right.to - right_start) * sizeof *right_start);
    all->to = left.to + (right.to - right_start);
    return err;
}

static int get_locations(const struct dp_decode *d, const struct fields *f, const struct field *field,
                         struct dp_decode_sample *sample)
{
    size_t n_most = field->type == DP_WIRE_BYTES ? field->n_bytes : 1;
    if (field->type != DP_WIRE_BYTES && field->type != DP_WIRE_VARINT)
        return wrong_type(f, field, "location_id");
    if (!dp_vec_room(&sample->locations, n_most + 1))
        return no_memory(f->error);
    uint32_t *to = sample->locations.at + sample->locations.n;
    struct lane lane = {field->bytes, field->bytes + field->n_bytes, to};
    int err;
    if (field->type == DP_WIRE_VARINT) {
        lane.at = dp_wire_get(field->start, d->bytes + d->n_bytes, &(uint64_t){0}); /* behind the tag */
        lane.end = f->at;
        err = take_rest(d, f, &lane);
    } else {
        err = take_packed(d, f, &lane);
    }
    sample->locations.n += (size_t)(lane.to - to);
    return err;
}

static int get_values(const struct dp_decode *d, const struct fields *f, const struct field *field,
                      struct dp_decode_sample *sample)
{
    size_t n_most = field->type == DP_WIRE_BYTES ? field->n_bytes : 1;
    if (field->type != DP_WIRE_BYTES && field->type != DP_WIRE_VARINT)
        return wrong_type(f, field, "value");
    if (!dp_vec_room(&sample->values, n_most + 1))
        return no_memory(f->error);
    if (field->type == DP_WIRE_VARINT) {
        sample->values.at[sample->values.n++] = (int64_t)field->value;
        return 0;
    }
    const uint8_t *at = field->bytes, *end = at + field->n_bytes, *all_end = d->bytes + d->n_bytes;
    int64_t *to = sample->values.at + sample->values.n;
    while (at < end) {
        uint64_t value, ends = 0, word = all_end - at >= (ptrdiff_t)sizeof value ? dp_wire_word(at, &ends) : 0;
        const uint8_t *start = at;
        if (ends && (at += __builtin_ctzll(ends) / 8 + 1) <= end)
            value = dp_wire_squeeze(word & (ends ^ (ends - 1)));
        else
            at = dp_wire_get(start, end, &value);
        if (!at)
            return fail_at(f, start, "value", "is a number that does not end");
        *to++ = (int64_t)value;
    }
    sample->values.n = (size_t)(to - sample->values.at);
    return 0;
}

static int get_label(struct fields outer, const struct field *field, struct dp_decode_sample *sample)
{
    if (field->type != DP_WIRE_BYTES)
        return wrong_type(&outer, field, "label");
    struct fields f = inside(&outer, field, "Label");
    struct dp_decode_label label = {0};
    struct field in;
    int more;
    while ((more = next_field(&f, &in)) > 0) {
        switch (in.number) {
        case 1:
            more = get_string(&f, &in, "key", &label.key);
            break;
        case 2:
            more = get_string(&f, &in, "str", &label.str);
            break;
        case 3:
            more = get_signed(&f, &in, "num", &label.num);
            break;
        case 4:
            more = get_string(&f, &in, "num_unit", &label.num_unit);
            break;
        default:
            label.unknown = (struct dp_decode_span){(uint32_t)(f.start - f.base), (uint32_t)(f.end - f.start)};
        }
        if (more < 0)
            return more;
    }
    if (more < 0)
        return more;
    struct dp_decode_label *to = dp_vec_push(&sample->labels);
    if (!to)
        return no_memory(f.error);
    *to = label;
    return 0;
}

static int check_values(const struct dp_decode *d, size_t i, const struct dp_decode_sample *sample,
                        struct dp_decode_error *error)
{
    if (sample->values.n == d->types.n)
        return 0;
    return dp_decode_fail(error, "byte %u: Sample.value has %zu values for %zu sample types", d->samples.at[i].offset,
                          sample->values.n, d->types.n);
}

int dp_decode_sample(const struct dp_decode *d, size_t i, struct dp_decode_sample *sample,
                     struct dp_decode_error *error)
{
    const uint8_t *start = d->bytes + d->samples.at[i].offset;
    struct largest largest = {0};
    struct fields f = {d->bytes, start, start, start + d->samples.at[i].n_bytes, "Sample", &largest, error};
    struct field field;
    int more;
    dp_vec_clear(&sample->locations);
    dp_vec_clear(&sample->values);
    dp_vec_clear(&sample->labels);
    sample->unknown = (struct dp_decode_span){0};
    while ((more = next_field(&f, &field)) > 0) {
        switch (field.number) {
        case 1:
            more = get_locations(d, &f, &field, sample);
            break;
        case 2:
            more = get_values(d, &f, &field, sample);
            break;
        case 3:
            more = get_label(f, &field, sample);
            break;
        default:
            sample->unknown = d->samples.at[i];
        }
        if (more < 0)
            return more;
    }
    if (!more && largest.index)
        more = dp_decode_check_strings(d, &largest, error);
    return more ? more : check_values(d, i, sample, error);
}

int dp_decode_values(const struct dp_decode *d, size_t i, struct dp_decode_span values, struct dp_decode_sample *sample,
                     struct dp_decode_error *error)
{
    struct fields f = {.base = d->bytes, .message = "Sample", .error = error};
    struct field field = {.type = DP_WIRE_BYTES, .bytes = d->bytes + values.offset, .n_bytes = values.n_bytes};
    dp_vec_clear(&sample->values);
    int err = get_values(d, &f, &field, sample);
    return err ? err : check_values(d, i, sample, error);
}

void dp_decode_sample_fini(struct dp_decode_sample *sample)
{
    dp_vec_fini(&sample->locations);
    dp_vec_fini(&sample->values);
    dp_vec_fini(&sample->labels);
}

int dp_decode_unknown(const struct dp_decode *d, struct dp_decode_span message, unsigned last_known,
                      struct dp_decode_fields *out)
{
    const uint8_t *start = d->bytes + message.offset;
    struct fields f = {d->bytes, start, start, start + message.n_bytes, "", NULL, NULL};
    struct field field;
    while (next_field(&f, &field) > 0) {
        if (field.number <= last_known)
            continue;
        size_t n = (size_t)(f.at - field.start);
        if (!dp_vec_room(&out->bytes, n))
            return -ENOMEM;
        memcpy(out->bytes.at + out->bytes.n, field.start, n);
        out->bytes.n += n;
    }
    return 0;
}
