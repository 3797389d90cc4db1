/* SPDX-License-Identifier: MIT */
/* tool/formats/speedscope_write.c - writes a speedscope file: the frames once, and a sampled profile for each sample
 * type.
 */
#include "tool/formats/formats.h"

#include "tool/formats/bytes.h"
#include "tool/formats/stack_names.h"
#include "pprof/encode_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct writer {
    const struct dp_formats_profile *p;
    struct dp_formats_bytes out;
    DP_VEC(uint32_t) first; /* of each location: the number of its innermost frame + 1 */
    uint32_t n_frames;
};

static void put_text(struct writer *w, const char *text)
{
    put_raw(&w->out, text, strlen(text));
}

static void put_integer(struct writer *w, int64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, number);
    put_text(w, text);
}

static int append(void *bytes, const void *more, size_t n_more)
{
    put_raw(bytes, more, n_more);
    return 0;
}

static void put_string(struct writer *w, const char *text)
{
    dp_encode_json_string(text, append, &w->out);
}

static void put_frames_of(struct writer *w, uint32_t location)
{
    const struct dp_model *m = w->p->model;
    w->first.at[location] = w->n_frames + 1;
    for (uint32_t i = 0; i < dp_formats_n_names(m, location); i++) {
        char room[DP_FORMATS_NAME_BYTES];
        const struct dp_model_line *line = dp_formats_line(m, location, i);
        put_text(w, w->n_frames++ ? ",{\"name\":" : "{\"name\":");
        put_string(w, dp_formats_name(m, location, i, room));
        const char *file = line && line->function ? dp_model_text(m, m->functions.at[line->function - 1].file) : "";
        if (*file) {
            put_text(w, ",\"file\":");
            put_string(w, file);
        }
        if (line && line->line > 0) {
            put_text(w, ",\"line\":");
            put_integer(w, line->line);
        }
        if (line && line->column > 0) {
            put_text(w, ",\"col\":");
            put_integer(w, line->column);
        }
        put_text(w, "}");
    }
}

static void put_stack(struct writer *w, uint32_t row)
{
    const struct dp_model *m = w->p->model;
    bool is_first = true;
    put_text(w, "[");
    for (uint32_t k = dp_model_depth(m, row); k-- > 0;) { /* root first */
        uint32_t location = dp_model_stack(m, row)[k];
        for (uint32_t n = dp_formats_n_names(m, location); n-- > 0; is_first = false) {
            if (!is_first)
                put_text(w, ",");
            put_integer(w, w->first.at[location] - 1 + n);
        }
    }
    put_text(w, "]");
}

static int64_t value_of(const struct writer *w, size_t i, uint32_t type)
{
    int64_t value = w->p->values[w->p->rows[i] * w->p->model->types.n + w->p->first_type + type];
    return value > 0 ? value : 0; /* speedscope knows no negative weights */
}

static void put_profile(struct writer *w, uint32_t type)
{
    const struct dp_model *m = w->p->model;
    const char *unit = dp_model_text(m, m->types.at[w->p->first_type + type].unit);
    static const char *const known[] = {"bytes", "nanoseconds", "microseconds", "milliseconds", "seconds"};
    int64_t sum = 0;
    size_t n = 0;
    put_text(w, type ? ",{\"type\":\"sampled\",\"name\":" : "{\"type\":\"sampled\",\"name\":");
    put_string(w, dp_model_text(m, m->types.at[w->p->first_type + type].type));
    put_text(w, ",\"unit\":\"");
    const char *shown = "none";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i], unit))
            shown = known[i];
    put_text(w, shown);
    put_text(w, "\",\"startValue\":0,\"samples\":[");
    for (size_t i = 0; i < w->p->n_rows; i++)
        if (value_of(w, i, type)) {
            if (n++)
                put_text(w, ",");
            put_stack(w, w->p->rows[i]);
        }
    put_text(w, "],\"weights\":[");
    n = 0;
    for (size_t i = 0; i < w->p->n_rows; i++)
        if (value_of(w, i, type)) {
            if (n++)
                put_text(w, ",");
            put_integer(w, value_of(w, i, type));
            if (__builtin_add_overflow(sum, value_of(w, i, type), &sum))
                sum = INT64_MAX;
        }
    put_text(w, "],\"endValue\":");
    put_integer(w, sum);
    put_text(w, "}");
}

/* The type to show first, which is the last one if the profile names none, as pprof has it. */
static uint32_t default_type(const struct dp_formats_profile *p)
{
    for (uint32_t i = 0; i < p->n_types; i++)
        if (p->header->default_type && p->model->types.at[p->first_type + i].type == p->header->default_type)
            return i;
    return p->n_types ? p->n_types - 1 : 0;
}

int dp_formats_write_speedscope(const struct dp_formats_profile *p, const char *name, dp_pprof_write_fn fn, void *ctx)
{
    struct writer w = {.p = p};
    const struct dp_model *m = p->model;
    if (!dp_vec_room(&w.first, m->locations.n + 1))
        return -ENOMEM;
    put_text(
        &w, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"deltaprof\",\"name\":");
    put_string(&w, name);
    put_text(&w, ",\"activeProfileIndex\":");
    put_integer(&w, default_type(p));
    put_text(&w, ",\"shared\":{\"frames\":[");
    for (size_t i = 0; i < p->n_rows; i++)
        for (uint32_t k = 0; k < dp_model_depth(m, p->rows[i]); k++)
            if (!w.first.at[dp_model_stack(m, p->rows[i])[k]])
                put_frames_of(&w, dp_model_stack(m, p->rows[i])[k]);
    put_text(&w, "]},\"profiles\":[");
    for (uint32_t type = 0; type < p->n_types; type++)
        put_profile(&w, type);
    put_text(&w, "]}\n");
    int err = w.out.failed ? -ENOMEM : fn(ctx, w.out.at, w.out.n);
    dp_vec_fini(&w.out);
    dp_vec_fini(&w.first);
    return err;
}
