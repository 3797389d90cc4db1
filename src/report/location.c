/* SPDX-License-Identifier: MIT */
/*
 * report/location.c - each frame is resolved once a profile: 4 bytes a frame of scratch tell which were met.
 *
 * Ids of mappings are dealt out on first use, because locations name them before mappings are written; id 1 is the main
 * program's, in whichever variant comes first. A mapping splits in two, with and without Lines, so that has_functions
 * is true of every location of its mapping: pprof then trusts it, and Pyroscope drops addresses by it.
 */
#include "report/location.h"

#include "report/lock.h"
#include "report/symbol.h"

#include <errno.h>
#include <string.h>

#define PAGE ((uint64_t)4095)

static uint64_t fail(struct dp_locations *l, int err)
{
    if (!l->error)
        l->error = err;
    return 0;
}

int dp_locations_begin(struct dp_locations *l)
{
    l->anon_start[0] = l->anon_start[1] = UINT64_MAX;
    struct dp_location_mapping *main = dp_vec_push(&l->mappings);
    if (!main || !dp_vec_room(&l->ids, 2)) {
        dp_vec_fini(&l->mappings);
        return -ENOMEM;
    }
    l->ids.n = 2;
    int err = dp_report_lock(!l->no_wait);
    if (!err) {
        err = dp_maps_begin();
        if (!err) {
            dp_symbol_begin();
            main->map = dp_maps_get(DP_MAPPING_MAIN);
        }
        dp_report_unlock();
    }
    if (err) {
        dp_vec_fini(&l->mappings);
        dp_vec_fini(&l->ids);
    }
    return err;
}

/* ---- mapping ids ------------------------------------------------------------------------------------------------ */

/* The id of a mapping in the variant asked for; narrows what all its locations have. 0: no memory. */
static uint32_t mapping_id(struct dp_locations *l, const struct dp_location_mapping *has)
{
    size_t slot = 2 * (size_t)has->index + has->has_lines;
    if (slot >= l->ids.n) {
        if (!dp_vec_room(&l->ids, slot + 1 - l->ids.n))
            return 0;
        l->ids.n = slot + 1;
    }
    uint32_t id = l->ids.at[slot];
    if (!id) {
        bool first_of_main = has->index == DP_MAPPING_MAIN && !l->ids.at[0] && !l->ids.at[1];
        if (!dp_vec_room(&l->mappings, 1))
            return 0;
        l->mappings.n += !first_of_main;
        id = first_of_main ? 1 : (uint32_t)l->mappings.n;
        l->ids.at[slot] = id;
        l->mappings.at[id - 1] = *has;
    }
    struct dp_location_mapping *m = &l->mappings.at[id - 1];
    m->has_files &= has->has_files;
    m->has_numbers &= has->has_numbers;
    m->has_inlines &= has->has_inlines;
    return id;
}

/* ---- locations -------------------------------------------------------------------------------------------------- */

static uint64_t line_function(struct dp_locations *l, const struct dp_symbol_line *line)
{
    struct dp_encode *e = l->encode;
    int64_t name = dp_encode_string(e, line->name, strlen(line->name));
    int64_t system_name = line->system_name ? dp_encode_string(e, line->system_name, strlen(line->system_name)) : name;
    int64_t file = line->file ? dp_encode_string(e, line->file, strlen(line->file)) : 0;
    return dp_encode_function(e, name, system_name, file, line->start_line);
}

#define LINES_MAX 64

static uint64_t give(struct dp_locations *l, uint32_t index, const struct dp_mapping *map, uint64_t address,
                     const struct dp_symbol_line *lines, int n)
{
    struct dp_location_mapping has = {.map = *map, .index = index};
    struct dp_encode_line out[LINES_MAX] = {0};
    n = n < LINES_MAX ? n : LINES_MAX;
    has.has_lines = has.has_files = has.has_numbers = n > 0;
    for (int i = 0; i < n; i++) {
        out[i].function = line_function(l, &lines[i]);
        out[i].line = lines[i].line;
        has.has_files &= lines[i].file != NULL;
        has.has_numbers &= lines[i].line > 0;
    }
    has.has_inlines = has.has_numbers && l->symbolize == DP_SYMBOLIZE_LINES;
    uint32_t id = mapping_id(l, &has);
    if (!id)
        return fail(l, -ENOMEM);
    if (index == DP_MAPPING_ANON && address < l->anon_start[has.has_lines])
        l->anon_start[has.has_lines] = address;
    if (index == DP_MAPPING_ANON && address >= l->anon_limit[has.has_lines])
        l->anon_limit[has.has_lines] = address + 1;
    return dp_encode_location(l->encode, id, address, out, (size_t)n);
}

uint64_t dp_locations_named(struct dp_locations *l, uint64_t address, const struct deltaprof_frame_name *name)
{
    static const struct dp_mapping anon = {.file = "[anon]", .build_id = ""};
    struct dp_symbol_line line = {.name = name->function, .file = name->file, .line = name->line,
                                  .start_line = name->start_line};
    return give(l, DP_MAPPING_ANON, &anon, address, &line, name->function != NULL);
}

static uint64_t code(struct dp_locations *l, dp_frame_id id, const struct dp_frame *frame)
{
    int err = dp_report_lock(!l->no_wait);
    if (err)
        return fail(l, err);
    uint32_t index = dp_maps_find(id);
    struct dp_mapping map = dp_maps_get(index);
    const struct dp_symbol *symbol = dp_symbol_find(id, frame->pc, index, l->symbolize);
    dp_report_unlock();
    uint64_t bias = l->address == DP_ADDRESS_ELF ? map.bias : 0;
    return give(l, index, &map, frame->pc - bias, symbol ? symbol->lines : NULL, symbol ? symbol->n_lines : 0);
}

/* A frame without code behind it: ours by its name, a runtime's by its value. */
static uint64_t codeless(struct dp_locations *l, dp_frame_id id, const struct dp_frame *frame)
{
    struct deltaprof_frame_name name = {.function = dp_frame_synthetic_name(id)};
    return dp_locations_named(l, name.function ? 0 : frame->pc, &name);
}

uint64_t dp_locations_frame(struct dp_locations *l, dp_frame_id id)
{
    if (l->error)
        return 0;
    if (id >= l->by_frame.n) {
        size_t want = dp_frames_count();
        want = (want > id ? want : (size_t)id + 1) - l->by_frame.n;
        if (!dp_vec_room(&l->by_frame, want))
            return fail(l, -ENOMEM);
        l->by_frame.n += want;
    }
    uint32_t *location = &l->by_frame.at[id];
    if (*location)
        return *location;
    const struct dp_frame *frame = dp_frame_get(id);
    if (id >= DP_FRAME_FIRST_REAL && frame->type == DP_FRAME_CODE)
        *location = (uint32_t)code(l, id, frame);
    else
        *location = (uint32_t)codeless(l, id, frame);
    return *location;
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

static void write_mapping(struct dp_locations *l, const struct dp_location_mapping *m)
{
    const struct dp_mapping *map = &m->map;
    uint64_t bias = l->address == DP_ADDRESS_ELF ? map->bias : 0;
    struct dp_encode_mapping out = {
        .start = map->start - bias,
        .limit = map->limit - bias,
        .offset = map->offset,
        .file = dp_encode_string(l->encode, map->file, strlen(map->file)),
        .build_id = dp_encode_string(l->encode, map->build_id, strlen(map->build_id)),
        .has_functions = m->has_lines,
        .has_filenames = m->has_files,
        .has_line_numbers = m->has_numbers,
        .has_inline_frames = m->has_inlines,
    };
    if (m->index == DP_MAPPING_ANON) {
        out.start = l->anon_start[m->has_lines] & ~PAGE;
        out.limit = (l->anon_limit[m->has_lines] + PAGE) & ~PAGE;
        if (out.limit <= out.start)
            out.limit = UINT64_MAX; /* the last page of all */
    }
    dp_encode_mapping(l->encode, &out);
}

int dp_locations_end(struct dp_locations *l)
{
    for (size_t i = 0; !l->error && i < l->mappings.n; i++)
        write_mapping(l, &l->mappings.at[i]);
    if (!dp_report_lock(!l->no_wait)) {
        dp_symbol_end();
        dp_report_unlock();
    }
    dp_vec_fini(&l->by_frame);
    dp_vec_fini(&l->ids);
    dp_vec_fini(&l->mappings);
    return l->error;
}
