/* SPDX-License-Identifier: MIT */
/*
 * tool/model/write.c - writes rows of a model as a profile. A location is written before the first row that refers to
 * it; its mapping gets an id then and is written last.
 */
#include "tool/model/write.h"

#include "tool/model/moments.h"
#include "pprof/wire.h"

#include <errno.h>

int dp_model_header_fill(struct dp_model_header *header, const struct dp_model *m, const struct dp_decode *d)
{
    dp_vec_clear(&header->comments);
    dp_vec_clear(&header->unknown);
    header->has_period_type = d->has_period_type;
    header->period_type =
        (struct dp_model_type){m->string_map.at[d->period_type.type], m->string_map.at[d->period_type.unit]};
    header->period = d->period;
    header->time_ns = d->time_ns;
    header->duration_ns = d->duration_ns;
    header->default_type = m->string_map.at[d->default_type];
    header->drop_frames = m->string_map.at[d->drop_frames];
    header->keep_frames = m->string_map.at[d->keep_frames];
    header->doc_url = m->string_map.at[d->doc_url];
    if (!dp_vec_room(&header->comments, d->comments.n + 1))
        return -ENOMEM;
    for (size_t i = 0; i < d->comments.n; i++)
        header->comments.at[header->comments.n++] = m->string_map.at[d->comments.at[i]];
    for (size_t i = 0; i < d->unknown.n; i++) {
        struct dp_decode_span span = d->unknown.at[i];
        if (dp_model_moments_is_field(d, span)) /* its ids are those of that profile */
            continue;
        if (!dp_vec_room(&header->unknown, span.n_bytes))
            return -ENOMEM;
        memcpy(header->unknown.at + header->unknown.n, d->bytes + span.offset, span.n_bytes);
        header->unknown.n += span.n_bytes;
    }
    return 0;
}

/* Adds the comments that are not there yet. */
static int join_comments(struct dp_model_header *header, const struct dp_model *m, const struct dp_decode *d)
{
    size_t n_strings = dp_strings_count(&m->strings), n_known = header->has_comment.n;
    uint8_t *more = dp_vec_room(&header->has_comment, n_strings - n_known + 1);
    if (!more || !dp_vec_room(&header->comments, d->comments.n + 1))
        return -ENOMEM;
    memset(more, 0, n_strings - n_known);
    header->has_comment.n = n_strings;
    for (size_t i = 0; i < header->comments.n && !n_known; i++)
        header->has_comment.at[header->comments.at[i]] = 1;
    for (size_t i = 0; i < d->comments.n; i++) {
        uint32_t comment = m->string_map.at[d->comments.at[i]];
        if (!header->has_comment.at[comment])
            header->comments.at[header->comments.n++] = comment;
        header->has_comment.at[comment] = 1;
    }
    return 0;
}

int dp_model_header_join(struct dp_model_header *header, const struct dp_model *m, const struct dp_decode *d)
{
    if (d->time_ns && (!header->time_ns || d->time_ns < header->time_ns))
        header->time_ns = d->time_ns;
    if (__builtin_add_overflow(header->duration_ns, d->duration_ns, &header->duration_ns))
        header->duration_ns = INT64_MAX;
    if (d->period > header->period)
        header->period = d->period;
    if (!header->default_type)
        header->default_type = m->string_map.at[d->default_type];
    if (!header->doc_url)
        header->doc_url = m->string_map.at[d->doc_url];
    return join_comments(header, m, d);
}

void dp_model_header_fini(struct dp_model_header *header)
{
    dp_vec_fini(&header->comments);
    dp_vec_fini(&header->has_comment);
    dp_vec_fini(&header->unknown);
    *header = (struct dp_model_header){0};
}

int64_t dp_model_write_string(struct dp_model_write *w, uint32_t number)
{
    uint32_t *index = &w->strings.at[number];
    if (!*index)
        *index = (uint32_t)dp_encode_string(w->encode, dp_model_text(w->model, number),
                                            dp_strings_size(&w->model->strings, number)) +
                 1;
    return *index - 1;
}

static struct dp_encode_extra extra(const struct dp_model_write *w, struct dp_model_unknown unknown)
{
    if (!unknown.n_bytes)
        return (struct dp_encode_extra){0};
    return (struct dp_encode_extra){w->model->unknown.at + unknown.offset, unknown.n_bytes};
}

static uint32_t mapping_id(struct dp_model_write *w, uint32_t number)
{
    if (!w->mappings.at[number]) {
        w->mapped.at[w->mapped.n++] = number;
        w->mappings.at[number] = (uint32_t)w->mapped.n;
    }
    return w->mappings.at[number];
}

static void put_string_field(struct dp_model_write *w, unsigned field, uint32_t number)
{
    uint8_t bytes[2 * DP_WIRE_VARINT_MAX];
    dp_encode_raw(w->encode, bytes,
                  (size_t)(dp_wire_put_nonzero(bytes, field, (uint64_t)dp_model_write_string(w, number)) - bytes));
}

static int put_header(struct dp_model_write *w, const struct dp_model_header *header)
{
    const struct dp_model *m = w->model;
    struct dp_encode_value_type *types = dp_mem_map((m->types.n + 1) * sizeof *types);
    if (!types)
        return -ENOMEM;
    for (size_t i = 0; i < m->types.n; i++)
        types[i] =
            (struct dp_encode_value_type){dp_model_text(m, m->types.at[i].type), dp_model_text(m, m->types.at[i].unit)};
    struct dp_encode_header to = {
        .types = types,
        .n_types = m->types.n,
        .period = header->period,
        .time_ns = header->time_ns,
        .duration_ns = header->duration_ns,
        .default_type = header->default_type ? dp_model_text(m, header->default_type) : NULL,
    };
    if (header->has_period_type)
        to.period_type = (struct dp_encode_value_type){dp_model_text(m, header->period_type.type),
                                                       dp_model_text(m, header->period_type.unit)};
    dp_encode_header(w->encode, &to);
    dp_mem_unmap(types, (m->types.n + 1) * sizeof *types);
    put_string_field(w, 7, header->drop_frames);
    put_string_field(w, 8, header->keep_frames);
    put_string_field(w, 15, header->doc_url);
    for (size_t i = 0; i < header->comments.n; i++)
        put_string_field(w, 13, header->comments.at[i]);
    dp_encode_raw(w->encode, header->unknown.at, header->unknown.n);
    return 0;
}

int dp_model_write_begin(struct dp_model_write *w, struct dp_model *m, const struct dp_model_header *header,
                         dp_pprof_write_fn fn, void *ctx)
{
    *w = (struct dp_model_write){.model = m, .encode = dp_encode_new(fn, ctx)};
    size_t n_strings = dp_strings_count(&m->strings);
    if (!w->encode || !dp_vec_room(&w->locations, m->locations.n + 1) ||
        !dp_vec_room(&w->functions, m->functions.n + 1) || !dp_vec_room(&w->mappings, m->mappings.n + 1) ||
        !dp_vec_room(&w->mapped, m->mappings.n + 1) || !dp_vec_room(&w->strings, n_strings))
        return -ENOMEM;
    if (m->main_mapping)
        mapping_id(w, m->main_mapping - 1);
    return put_header(w, header);
}

static uint64_t function_id(struct dp_model_write *w, uint32_t number)
{
    uint64_t *id = &w->functions.at[number];
    if (*id)
        return *id;
    const struct dp_model_function *f = &w->model->functions.at[number];
    int64_t name = dp_model_write_string(w, f->name), system_name = dp_model_write_string(w, f->system_name),
            file = dp_model_write_string(w, f->file);
    dp_encode_extra(w->encode, extra(w, f->unknown));
    return *id = dp_encode_function(w->encode, name, system_name, file, f->start_line);
}

uint64_t dp_model_write_location(struct dp_model_write *w, uint32_t number)
{
    uint64_t *id = &w->locations.at[number];
    if (*id)
        return *id;
    const struct dp_model *m = w->model;
    const struct dp_model_location *location = &m->locations.at[number];
    dp_vec_clear(&w->lines);
    if (!dp_vec_room(&w->lines, location->n_lines + 1))
        return 0;
    for (uint32_t i = 0; i < location->n_lines; i++) {
        const struct dp_model_line *line = &m->lines.at[location->first_line + i];
        struct dp_encode_line *to = &w->lines.at[w->lines.n++];
        *to = (struct dp_encode_line){.line = line->line, .column = line->column, .extra = extra(w, line->unknown)};
        if (line->function)
            to->function = function_id(w, line->function - 1);
    }
    uint64_t mapping = location->mapping ? mapping_id(w, location->mapping - 1) : 0;
    dp_encode_extra(w->encode, extra(w, location->unknown));
    return *id = dp_encode_location(w->encode, mapping, location->address, w->lines.at, w->lines.n);
}

int dp_model_write_row(struct dp_model_write *w, uint32_t row, const int64_t *values)
{
    const struct dp_model *m = w->model;
    uint32_t depth = dp_model_depth(m, row), n_labels = dp_model_n_labels(m, row);
    dp_vec_clear(&w->stack);
    dp_vec_clear(&w->labels);
    if (!dp_vec_room(&w->stack, depth + 1) || !dp_vec_room(&w->labels, n_labels + 1))
        return -ENOMEM;
    for (uint32_t i = 0; i < depth; i++)
        if (!(w->stack.at[w->stack.n++] = dp_model_write_location(w, dp_model_stack(m, row)[i])))
            return -ENOMEM;
    for (uint32_t i = 0; i < n_labels; i++) {
        const struct dp_model_label *label = &m->labels.at[dp_model_labels(m, row)[i]];
        struct dp_encode_label *to = &w->labels.at[w->labels.n++];
        to->key = dp_model_write_string(w, label->key);
        to->str = dp_model_write_string(w, label->str);
        to->num = label->num;
        to->num_unit = dp_model_write_string(w, label->num_unit);
        to->extra = extra(w, label->unknown);
    }
    dp_encode_extra(w->encode, extra(w, m->rows.at[row].unknown));
    dp_encode_sample(w->encode, w->stack.at, w->stack.n, values, w->labels.at, w->labels.n);
    return 0;
}

int dp_model_write_finish(struct dp_model_write *w)
{
    for (size_t i = 0; i < w->mapped.n; i++) {
        const struct dp_model_mapping *from = &w->model->mappings.at[w->mapped.at[i]];
        struct dp_encode_mapping to = {
            .start = from->start,
            .limit = from->limit,
            .offset = from->offset,
            .file = dp_model_write_string(w, from->file),
            .build_id = dp_model_write_string(w, from->build_id),
            .has_functions = from->has_functions,
            .has_filenames = from->has_filenames,
            .has_line_numbers = from->has_line_numbers,
            .has_inline_frames = from->has_inline_frames,
        };
        dp_encode_extra(w->encode, extra(w, from->unknown));
        dp_encode_mapping(w->encode, &to);
    }
    return dp_encode_finish(w->encode);
}

void dp_model_write_fini(struct dp_model_write *w)
{
    dp_encode_free(w->encode);
    dp_vec_fini(&w->locations);
    dp_vec_fini(&w->functions);
    dp_vec_fini(&w->mappings);
    dp_vec_fini(&w->mapped);
    dp_vec_fini(&w->strings);
    dp_vec_fini(&w->stack);
    dp_vec_fini(&w->lines);
    dp_vec_fini(&w->labels);
    *w = (struct dp_model_write){0};
}
