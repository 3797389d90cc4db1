/* SPDX-License-Identifier: MIT */
/* formats/names.c - names of a model's frames, and locations of pprof that have only a name. */
#include "formats/names.h"

#include "formats/bytes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

const struct dp_model_line *dp_formats_line(const struct dp_model *m, uint32_t location, uint32_t i)
{
    const struct dp_model_location *l = &m->locations.at[location];
    return i < l->n_lines ? &m->lines.at[l->first_line + i] : NULL;
}

const char *dp_formats_name(const struct dp_model *m, uint32_t location, uint32_t i, char room[DP_FORMATS_NAME_BYTES])
{
    const struct dp_model_line *line = dp_formats_line(m, location, i);
    const char *name = line && line->function ? dp_model_text(m, m->functions.at[line->function - 1].name) : "";
    if (*name)
        return name;
    snprintf(room, DP_FORMATS_NAME_BYTES, "0x%" PRIx64, m->locations.at[location].address);
    return room;
}

void dp_formats_named_begin(struct dp_formats_named *named)
{
    dp_vec_clear(&named->stack);
}

int dp_formats_named_frame(struct dp_formats_named *named, const struct dp_formats_frame *frame)
{
    struct dp_formats_bytes key = {0};
    put_varint(&key, (uint64_t)frame->line);
    put_varint(&key, (uint64_t)frame->column);
    put_varint(&key, frame->n_name);
    put_raw(&key, frame->name, frame->n_name);
    put_raw(&key, frame->file ? frame->file : "", frame->file ? frame->n_file : 0);
    uint32_t number = key.failed ? DP_STRINGS_NONE : dp_strings_add(&named->frames, (const char *)key.at, key.n);
    dp_vec_fini(&key);
    uint64_t *to = number == DP_STRINGS_NONE ? NULL : dp_vec_push(&named->stack);
    if (!to)
        return -ENOMEM;
    if (number - 1 >= named->locations.n) {
        int64_t text = dp_encode_string(named->encode, frame->name, frame->n_name);
        int64_t file = frame->file ? dp_encode_string(named->encode, frame->file, frame->n_file) : 0;
        struct dp_encode_line one = {.function = dp_encode_function(named->encode, text, 0, file, 0),
                                     .line = frame->line,
                                     .column = frame->column};
        uint64_t *id = dp_vec_push(&named->locations);
        if (!id)
            return -ENOMEM;
        *id = dp_encode_location(named->encode, 0, 0, &one, 1);
    }
    *to = named->locations.at[number - 1];
    return 0;
}

void dp_formats_named_fini(struct dp_formats_named *named)
{
    dp_encode_free(named->encode);
    dp_strings_fini(&named->frames);
    dp_vec_fini(&named->locations);
    dp_vec_fini(&named->stack);
}
