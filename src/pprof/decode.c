/* SPDX-License-Identifier: MIT */
/*
 * pprof/decode.c - scans a profile: reads top-level fields in any order, then resolves references when all tables are
 * known.
 *
 * Invariants after a scan that succeeded: every string index, id and reference is in range; ids are not 0 and occur
 * once; the content of samples is not parsed yet; dp_decode_sample checks it.
 */
#include "pprof/decode.h"

#include "pprof/decode_fields.h"

#include <errno.h>
#include <string.h>

static struct dp_decode_span span_of(const struct fields *f)
{
    return (struct dp_decode_span){(uint32_t)(f->start - f->base), (uint32_t)(f->end - f->start)};
}

static int scan_value_type(struct fields outer, const struct field *field, struct dp_decode_value_type *type)
{
    struct fields f = inside(&outer, field, "ValueType");
    struct field in;
    int more;
    while ((more = next_field(&f, &in)) > 0) {
        if (in.number == 1)
            more = get_string(&f, &in, "type", &type->type);
        else if (in.number == 2)
            more = get_string(&f, &in, "unit", &type->unit);
        if (more < 0)
            return more;
    }
    return more;
}

static int scan_mapping(struct dp_decode *d, struct fields outer, const struct field *field)
{
    struct fields f = inside(&outer, field, "Mapping");
    struct dp_decode_mapping m = {.message = span_of(&f)};
    struct field in;
    int more;
    while ((more = next_field(&f, &in)) > 0) {
        uint64_t flag = 0;
        switch (in.number) {
        case 1:
            more = get_number(&f, &in, "id", &m.id);
            break;
        case 2:
            more = get_number(&f, &in, "memory_start", &m.start);
            break;
        case 3:
            more = get_number(&f, &in, "memory_limit", &m.limit);
            break;
        case 4:
            more = get_number(&f, &in, "file_offset", &m.offset);
            break;
        case 5:
            more = get_string(&f, &in, "filename", &m.file);
            break;
        case 6:
            more = get_string(&f, &in, "build_id", &m.build_id);
            break;
        case 7:
            more = get_number(&f, &in, "has_functions", &flag);
            m.has_functions = flag != 0;
            break;
        case 8:
            more = get_number(&f, &in, "has_filenames", &flag);
            m.has_filenames = flag != 0;
            break;
        case 9:
            more = get_number(&f, &in, "has_line_numbers", &flag);
            m.has_line_numbers = flag != 0;
            break;
        case 10:
            more = get_number(&f, &in, "has_inline_frames", &flag);
            m.has_inline_frames = flag != 0;
            break;
        default:
            m.has_unknown = true;
        }
        if (more < 0)
            return more;
    }
    if (more < 0)
        return more;
    if (m.id == 0)
        return fail_at(&f, f.start, "id", "is missing or 0");
    struct dp_decode_mapping *to = dp_vec_push(&d->mappings);
    if (!to)
        return no_memory(f.error);
    *to = m;
    return 0;
}

static int scan_function(struct dp_decode *d, struct fields outer, const struct field *field)
{
    struct fields f = inside(&outer, field, "Function");
    struct dp_decode_function function = {.message = span_of(&f)};
    struct field in;
    int more;
    while ((more = next_field(&f, &in)) > 0) {
        switch (in.number) {
        case 1:
            more = get_number(&f, &in, "id", &function.id);
            break;
        case 2:
            more = get_string(&f, &in, "name", &function.name);
            break;
        case 3:
            more = get_string(&f, &in, "system_name", &function.system_name);
            break;
        case 4:
            more = get_string(&f, &in, "filename", &function.file);
            break;
        case 5:
            more = get_signed(&f, &in, "start_line", &function.start_line);
            break;
        default:
            function.has_unknown = true;
        }
        if (more < 0)
            return more;
    }
    if (more < 0)
        return more;
    if (function.id == 0)
        return fail_at(&f, f.start, "id", "is missing or 0");
    struct dp_decode_function *to = dp_vec_push(&d->functions);
    if (!to)
        return no_memory(f.error);
    *to = function;
    return 0;
}

static int scan_line(struct dp_decode *d, struct fields outer, const struct field *field)
{
    struct fields f = inside(&outer, field, "Line");
    struct dp_decode_line line = {0};
    struct field in;
    int more;
    while ((more = next_field(&f, &in)) > 0) {
        switch (in.number) {
        case 1:
            more = get_number(&f, &in, "function_id", &line.function_id);
            break;
        case 2:
            more = get_signed(&f, &in, "line", &line.line);
            break;
        case 3:
            more = get_signed(&f, &in, "column", &line.column);
            break;
        default:
            line.unknown = span_of(&f);
        }
        if (more < 0)
            return more;
    }
    if (more < 0)
        return more;
    struct dp_decode_line *to = dp_vec_push(&d->lines);
    if (!to)
        return no_memory(f.error);
    *to = line;
    return 0;
}

static int scan_location(struct dp_decode *d, struct fields outer, const struct field *field)
{
    struct fields f = inside(&outer, field, "Location");
    struct dp_decode_location location = {.message = span_of(&f), .first_line = (uint32_t)d->lines.n};
    struct field in;
    int more;
    while ((more = next_field(&f, &in)) > 0) {
        switch (in.number) {
        case 1:
            more = get_number(&f, &in, "id", &location.id);
            break;
        case 2:
            more = get_number(&f, &in, "mapping_id", &location.mapping_id);
            break;
        case 3:
            more = get_number(&f, &in, "address", &location.address);
            break;
        case 4:
            more = in.type == DP_WIRE_BYTES ? scan_line(d, f, &in) : wrong_type(&f, &in, "line");
            break;
        default:
            location.has_unknown = true;
        }
        if (more < 0)
            return more;
    }
    if (more < 0)
        return more;
    if (location.id == 0)
        return fail_at(&f, f.start, "id", "is missing or 0");
    location.n_lines = (uint32_t)d->lines.n - location.first_line;
    struct dp_decode_location *to = dp_vec_push(&d->locations);
    if (!to)
        return no_memory(f.error);
    *to = location;
    return 0;
}

static int scan_comment(struct dp_decode *d, struct fields *f, const struct field *field)
{
    struct field one = *field;
    const uint8_t *at = field->bytes, *end = at + field->n_bytes;
    int packed = field->type == DP_WIRE_BYTES, result;
    one.type = packed ? DP_WIRE_VARINT : field->type;
    do {
        if (packed && at == end)
            return 0;
        if (packed && !(at = dp_wire_get(one.start = at, end, &one.value)))
            return fail_at(f, one.start, "comment", "a number that does not end");
        uint32_t *to = dp_vec_push(&d->comments);
        if (!to)
            return no_memory(f->error);
        if ((result = get_string(f, &one, "comment", to)))
            return result;
    } while (packed);
    return 0;
}

static int scan_top(struct dp_decode *d, struct fields *f, const struct field *field)
{
    static const char *const names[] = {"sample_type", "sample", "mapping", "location", "function", "string_table"};
    if ((field->number <= 6 || field->number == 11) && field->type != DP_WIRE_BYTES)
        return wrong_type(f, field, field->number == 11 ? "period_type" : names[field->number - 1]);
    struct dp_decode_span *span;
    struct dp_decode_value_type *type;
    switch (field->number) {
    case 1:
        type = dp_vec_push(&d->types);
        return type ? scan_value_type(*f, field, type) : no_memory(f->error);
    case 2:
    case 6:
        span = field->number == 2 ? dp_vec_push(&d->samples) : dp_vec_push(&d->strings);
        if (!span)
            return no_memory(f->error);
        *span = (struct dp_decode_span){(uint32_t)(field->bytes - f->base), (uint32_t)field->n_bytes};
        return 0;
    case 3:
        return scan_mapping(d, *f, field);
    case 4:
        return scan_location(d, *f, field);
    case 5:
        return scan_function(d, *f, field);
    case 7:
        return get_string(f, field, "drop_frames", &d->drop_frames);
    case 8:
        return get_string(f, field, "keep_frames", &d->keep_frames);
    case 9:
        if (d->has_time)
            return fail_at(f, field->start, "time_nanos", "stands there again: a second profile behind the first");
        d->has_time = true;
        return get_signed(f, field, "time_nanos", &d->time_ns);
    case 10:
        return get_signed(f, field, "duration_nanos", &d->duration_ns);
    case 11:
        d->has_period_type = true;
        return scan_value_type(*f, field, &d->period_type);
    case 12:
        return get_signed(f, field, "period", &d->period);
    case 13:
        return scan_comment(d, f, field);
    case 14:
        return get_string(f, field, "default_sample_type", &d->default_type);
    case 15:
        return get_string(f, field, "doc_url", &d->doc_url);
    default:
        span = dp_vec_push(&d->unknown);
        if (!span)
            return no_memory(f->error);
        *span = (struct dp_decode_span){(uint32_t)(field->start - f->base), (uint32_t)(f->at - field->start)};
        return 0;
    }
}

static void clear(struct dp_decode *d)
{
    dp_vec_clear(&d->strings);
    dp_vec_clear(&d->samples);
    dp_vec_clear(&d->types);
    dp_vec_clear(&d->mappings);
    dp_vec_clear(&d->functions);
    dp_vec_clear(&d->locations);
    dp_vec_clear(&d->lines);
    dp_vec_clear(&d->comments);
    dp_vec_clear(&d->unknown);
    d->period_type = (struct dp_decode_value_type){0};
    d->has_period_type = d->has_time = false;
    d->period = d->time_ns = d->duration_ns = 0;
    d->default_type = d->drop_frames = d->keep_frames = d->doc_url = 0;
}

int dp_decode_scan(struct dp_decode *d, const uint8_t *bytes, size_t n_bytes, struct dp_decode_error *error)
{
    clear(d);
    d->bytes = bytes;
    d->n_bytes = n_bytes;
    struct largest largest = {0};
    struct fields f = {bytes, bytes, bytes, bytes + n_bytes, "Profile", &largest, error};
    struct field field;
    int more;
    while ((more = next_field(&f, &field)) > 0)
        if ((more = scan_top(d, &f, &field)) < 0)
            return more;
    return more ? more : dp_decode_resolve(d, &largest, error);
}
