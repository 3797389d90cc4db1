/* SPDX-License-Identifier: MIT */
/*
 * tool/summary/stuck_names.c - a process that was forked by one with threads loads no module for names: another thread
 * may have held the loader's lock. Its text of a wait then has places. The same stack is a row of the profile, whose
 * location tells the file.
 */
#include "tool/summary/stuck_names.h"

#include "tool/query/frame_names.h"

#include <stdio.h>
#include <stdlib.h>

static int skip_row(void *context, uint32_t row, const int64_t *values)
{
    (void)context;
    (void)row;
    (void)values;
    return 0;
}

/* Whether a location is the place of an object. Texts have addresses inside the call, profiles those behind it. */
static bool is_at(const struct dp_model *m, const struct dp_model_location *l, const char *object, size_t n_object,
                  uint64_t place)
{
    if (!l->mapping)
        return false;
    const char *file = dp_model_text(m, m->mappings.at[l->mapping - 1].file), *slash = strrchr(file, '/');
    const char *name = slash ? slash + 1 : file;
    uint64_t at = l->address - m->mappings.at[l->mapping - 1].start + m->mappings.at[l->mapping - 1].offset;
    return (at == place || at == place + 1) && strlen(name) == n_object && !memcmp(name, object, n_object);
}

/* The name of the innermost function there; NULL: not known. */
static const char *name_of(struct dp_query_naming_frames *f, const char *object, size_t n_object, uint64_t place)
{
    const struct dp_model *m = f->model;
    uint32_t first, i = 0;
    while (i < m->locations.n && !is_at(m, &m->locations.at[i], object, n_object, place))
        i++;
    if (i == m->locations.n || dp_query_naming_frames_of(f, i, &first) <= 0 || f->at.at[first].is_unnamed)
        return NULL;
    return dp_query_naming_frames_text(f, f->at.at[first].name);
}

void dp_summary_stuck_names(const struct dp_decode *decode, char *text, size_t n_bytes)
{
    static const char mark[] = "+0x";
    struct dp_model model = {.is_series = false};
    struct dp_query_naming_frames frames = {.model = &model};
    struct dp_decode_error error;
    char *mark_at = strstr(text, mark);
    if (!mark_at || dp_model_add(&model, decode, skip_row, NULL, &error))
        mark_at = NULL;
    while (mark_at) {
        char *object = mark_at, *end;
        uint64_t place = strtoull(mark_at + strlen(mark), &end, 16);
        while (object > text && object[-1] != ' ')
            object--;
        const char *name = name_of(&frames, object, (size_t)(mark_at - object), place);
        size_t n = name ? strlen(name) : 0, n_rest = strlen(end) + 1;
        if (name && (size_t)(object - text) + n + n_rest <= n_bytes) {
            memmove(object + n, end, n_rest);
            memcpy(object, name, n);
            end = object + n;
        }
        mark_at = strstr(end, mark);
    }
    dp_query_naming_frames_fini(&frames);
    dp_model_fini(&model);
}
