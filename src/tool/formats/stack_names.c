/* SPDX-License-Identifier: MIT */
/* tool/formats/stack_names.c - names of a model's frames. */
#include "tool/formats/stack_names.h"

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
