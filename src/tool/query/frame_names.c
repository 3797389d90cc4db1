/* SPDX-License-Identifier: MIT */
/*
 * tool/query/frame_names.c - resolves each location once, when it is first needed.
 *
 * The profile's own lines of a location are used, unless its file exists here with the same build-id and has more:
 * source lines, or inlined functions. A location without any name is called OBJECT+0xPLACE. Writers that cannot name a
 * place use the same form, and leave has_functions of the mapping unset.
 */
#include "tool/query/frame_names.h"

#include "tool/query/naming.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINES = 64, NAME_BYTES = 8192 };

static uint32_t add_text(struct dp_query_naming_frames *f, const char *text)
{
    if (!f->strings.offsets.n && dp_strings_add(&f->strings, "", 0) == DP_STRINGS_NONE)
        return DP_STRINGS_NONE;
    return dp_strings_add(&f->strings, text, strlen(text));
}

static uint32_t add_short(struct dp_query_naming_frames *f, const char *name)
{
    char text[NAME_BYTES];
    size_t n = strlen(name);
    if (n >= sizeof text)
        return add_text(f, name);
    memcpy(text, name, n + 1);
    dp_query_naming_shorten(text);
    return add_text(f, *text ? text : name);
}

static bool is_passing(struct dp_query_naming_frames *f, uint32_t name)
{
    if (f->passing.n <= name) {
        size_t n_more = name + 64 - f->passing.n;
        uint8_t *fresh = dp_vec_room(&f->passing, n_more);
        if (!fresh)
            return false;
        memset(fresh, 0, n_more);
        f->passing.n += n_more;
    }
    uint8_t *known = &f->passing.at[name];
    if (!*known) {
        const char *text = dp_query_naming_frames_text(f, name);
        bool is = dp_query_naming_is_passing(text);
        for (int i = 0; i < 2 && !is; i++)
            is = f->folds[i] && !regexec(f->folds[i], text, 0, NULL, 0);
        *known = is ? 2 : 1;
    }
    return *known == 2;
}

/* Whether the file of a mapping belongs to a library of the system; programs may lie there as well (postgres, cc1plus).
 */
static bool is_system_object(const char *object)
{
    const char *slash = strrchr(object, '/');
    return dp_query_naming_is_system_path(object) && (!slash || strstr(slash, ".so") || !strncmp(slash, "/ld-", 4));
}

static const char *mapping_file(const struct dp_model *m, const struct dp_model_location *l)
{
    return l->mapping ? dp_model_text(m, m->mappings.at[l->mapping - 1].file) : "";
}

static int count_unnamed(struct dp_query_naming_frames *f, const struct dp_model_location *l)
{
    while (f->unnamed.n < l->mapping) {
        uint32_t *fresh = dp_vec_push(&f->unnamed);
        if (!fresh)
            return -ENOMEM;
        *fresh = 0;
    }
    if (l->mapping)
        f->unnamed.at[l->mapping - 1]++;
    return 0;
}

/* Adds a frame; file NULL or "": not known. */
static int push(struct dp_query_naming_frames *f, const struct dp_model_location *l, const char *name, const char *file,
                int64_t line)
{
    const char *object = mapping_file(f->model, l), *slash = strrchr(object, '/');
    bool is_runtime = !strcmp(object, "[anon]") && file && *file;
    uint32_t shorter = add_short(f, name);
    struct dp_query_naming_frame frame = {
        .name = f->full ? add_text(f, name) : shorter,
        .file = file && *file ? add_text(f, file) : 0,
        .library = add_text(f, slash && slash[1] ? slash + 1 : object),
        .line = line,
        .is_unnamed = dp_model_is_place(name),
        .is_runtime = is_runtime,
        .is_interpreter = !is_runtime && dp_query_naming_is_interpreter(slash && slash[1] ? slash + 1 : object),
        .is_profiler = !strncmp(slash && slash[1] ? slash + 1 : object, "libdeltaprof", strlen("libdeltaprof")),
        .is_foreign = (is_runtime ? dp_query_naming_is_system_path(file) : is_system_object(object)) || !*object ||
                      (*object == '[' && !is_runtime) || (file && dp_query_naming_is_library_source(file)),
    };
    struct dp_query_naming_frame *to = dp_vec_push(&f->at);
    if (!to || shorter == DP_STRINGS_NONE || frame.name == DP_STRINGS_NONE || frame.file == DP_STRINGS_NONE ||
        frame.library == DP_STRINGS_NONE)
        return -ENOMEM;
    frame.is_passing = is_passing(f, shorter);
    frame.is_library = dp_query_naming_is_library(dp_query_naming_frames_text(f, shorter), file ? file : "");
    *to = frame;
    return frame.is_unnamed ? count_unnamed(f, l) : 0;
}

static const char *function_name(const struct dp_model *m, uint32_t function)
{
    if (!function)
        return "[no name]";
    const struct dp_model_function *f = &m->functions.at[function - 1];
    uint32_t name = f->name ? f->name : f->system_name;
    return name ? dp_model_text(m, name) : "[no name]";
}

/* The lines that the profile has. */
static int push_lines(struct dp_query_naming_frames *f, const struct dp_model_location *l)
{
    const struct dp_model *m = f->model;
    int err = 0;
    for (uint32_t i = 0; i < l->n_lines && !err; i++) {
        const struct dp_model_line *line = &m->lines.at[l->first_line + i];
        const char *file = line->function ? dp_model_text(m, m->functions.at[line->function - 1].file) : "";
        err = push(f, l, function_name(m, line->function), file, line->line);
    }
    return err;
}

static int push_place(struct dp_query_naming_frames *f, const struct dp_model_location *l)
{
    char text[512];
    const char *file = mapping_file(f->model, l), *slash = strrchr(file, '/');
    if (l->object)
        snprintf(text, sizeof text, "%.400s+0x%llx", slash && slash[1] ? slash + 1 : file,
                 (unsigned long long)l->place);
    else
        snprintf(text, sizeof text, "0x%llx", (unsigned long long)l->address);
    return push(f, l, text, NULL, 0);
}

static int push_found(struct dp_query_naming_frames *f, const struct dp_model_location *l,
                      const struct dp_symbol_line *lines, int n)
{
    int err = 0;
    for (int i = 0; i < n && !err; i++) {
        err = push(f, l, lines[i].name, lines[i].file, lines[i].line);
        if (!err)
            f->at.at[f->at.n - 1].is_looked_up = true;
    }
    return err;
}

/* Whether the profile's lines of the location are complete, so that a look-up in its file is not needed. */
static bool is_complete(const struct dp_model *m, const struct dp_model_location *l)
{
    if (!l->n_lines)
        return false;
    const struct dp_model_mapping *mapping = l->mapping ? &m->mappings.at[l->mapping - 1] : NULL;
    return !mapping || mapping->has_line_numbers || m->lines.at[l->first_line].line;
}

static int resolve(struct dp_query_naming_frames *f, uint32_t location)
{
    const struct dp_model *m = f->model;
    const struct dp_model_location *l = &m->locations.at[location];
    struct dp_symbol_line lines[MAX_LINES];
    int n = is_complete(m, l) ? 0 : dp_query_naming_lookup_find(&f->places, m, location, lines, MAX_LINES);
    bool is_better = n > 0 && (!l->n_lines || n > 1 || lines[0].file || !m->mappings.at[l->mapping - 1].has_functions);
    if (is_better)
        return push_found(f, l, lines, n);
    return l->n_lines ? push_lines(f, l) : push_place(f, l);
}

int dp_query_naming_frames_of(struct dp_query_naming_frames *f, uint32_t location, uint32_t *first)
{
    size_t known = f->of_location.n;
    if (known <= location) {
        if (!dp_vec_room(&f->of_location, f->model->locations.n - known))
            return -ENOMEM;
        memset(f->of_location.at + known, 0, (f->model->locations.n - known) * sizeof *f->of_location.at);
        f->of_location.n = f->model->locations.n;
    }
    uint64_t *of = &f->of_location.at[location];
    if (!*of) {
        size_t n_before = f->at.n;
        if (resolve(f, location))
            return -ENOMEM;
        *of = (uint64_t)n_before << 32 | (f->at.n - n_before);
    }
    *first = (uint32_t)(*of >> 32);
    return (int)(uint32_t)*of;
}

uint32_t dp_query_naming_frames_named(struct dp_query_naming_frames *f, const char *name)
{
    uint32_t text = add_text(f, name);
    struct dp_query_naming_frame *frame = text == DP_STRINGS_NONE ? NULL : dp_vec_push(&f->at);
    if (!frame)
        return DP_STRINGS_NONE;
    *frame = (struct dp_query_naming_frame){.name = text, .is_foreign = true};
    return (uint32_t)f->at.n - 1;
}

void dp_query_naming_frames_fini(struct dp_query_naming_frames *f)
{
    dp_query_naming_lookup_fini(&f->places);
    dp_strings_fini(&f->strings);
    dp_vec_fini(&f->at);
    dp_vec_fini(&f->of_location);
    dp_vec_fini(&f->passing);
    dp_vec_fini(&f->unnamed);
}
