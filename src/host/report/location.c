/* SPDX-License-Identifier: MIT */
/*
 * host/report/location.c - turns frames into the locations of a profile; each frame is resolved once per profile. 4
 * bytes per known frame hold its location, and a list of the frames met says which to clear afterwards.
 *
 * A mapping gets its id at first use, because locations refer to mappings before these are written; id 1 is the main
 * program's, in the variant that comes first. A mapping is split into two variants, with and without Lines, so that
 * has_functions is true for all its locations or for none: pprof then trusts it, and Pyroscope drops addresses by it.
 */
#include "host/report/location.h"

#include "base/hash.h"
#include "base/mem.h"
#include "host/objects/functions.h"
#include "host/symbols/symbols_lock.h"
#include "host/symbols/symbol.h"

#include <errno.h>
#include <string.h>

static uint32_t fail(struct dp_locations *l, int err)
{
    if (!l->err)
        l->err = err;
    return 0;
}

/* Makes room for the two variants of a mapping. */
static int widen(struct dp_locations *l, uint32_t index)
{
    size_t want = 2 * ((size_t)index + 1);
    if (want <= l->ids.n)
        return 0;
    if (!dp_vec_room(&l->ids, want - l->ids.n))
        return -ENOMEM;
    memset(l->ids.at + l->ids.n, 0, (want - l->ids.n) * sizeof *l->ids.at);
    l->ids.n = want;
    return 0;
}

/* Resets only the entries that were used. */
static void clear_map(struct dp_location_map *map)
{
    for (size_t i = 0; i < map->met.n; i++)
        map->refs.at[map->met.at[i]] = 0;
    dp_vec_clear(&map->met);
}

static void reset(struct dp_locations *l)
{
    clear_map(&l->by_frame);
    clear_map(&l->reversed);
    if (l->exact.n_used)
        memset(l->exact.at, 0, l->exact.n * sizeof *l->exact.at);
    l->exact.n_used = 0;
    dp_vec_clear(&l->ids);
    dp_vec_clear(&l->mappings);
}

int dp_locations_begin(struct dp_locations *l, struct dp_encode *encode, const struct dp_location_settings *settings)
{
    l->encode = encode;
    l->settings = *settings;
    l->err = 0;
    l->n_missed = 0;
    l->anon_start[0] = l->anon_start[1] = UINT64_MAX;
    l->anon_limit[0] = l->anon_limit[1] = 0;
    l->usual.id = 0;
    dp_line_functions_begin(&l->functions);
    struct dp_location_mapping *main = dp_vec_push(&l->mappings);
    int err = main && !widen(l, DP_MAPPING_MAIN) ? dp_symbols_lock(!l->settings.no_wait) : -ENOMEM;
    if (!err) {
        err = dp_symbols_maps_begin();
        if (!err)
            main->map = dp_symbols_maps_get(DP_MAPPING_MAIN);
        dp_symbols_unlock();
    }
    if (err)
        reset(l);
    return err;
}

/* ---- mapping ids ------------------------------------------------------------------------------------------------ */

/* Gives an id to a variant that is used for the first time. */
static uint32_t new_mapping(struct dp_locations *l, const struct dp_location_mapping *has)
{
    static const struct dp_symbols_mapping anon = {.file = "[anon]", .build_id = ""};
    bool first_of_main = has->index == DP_MAPPING_MAIN && !l->ids.at[0] && !l->ids.at[1];
    if (!first_of_main && !dp_vec_room(&l->mappings, 1))
        return 0;
    struct dp_symbols_mapping map = anon;
    if (has->index != DP_MAPPING_ANON) {
        int err = dp_symbols_lock(!l->settings.no_wait);
        if (err) {
            fail(l, err);
            return 0;
        }
        map = dp_symbols_maps_get(has->index);
        dp_symbols_unlock();
    }
    l->mappings.n += !first_of_main;
    uint32_t id = first_of_main ? 1 : (uint32_t)l->mappings.n;
    l->mappings.at[id - 1] = *has;
    l->mappings.at[id - 1].map = map;
    dp_encode_string(l->encode, map.file, strlen(map.file)); /* at the end there may be no memory for them */
    dp_encode_string(l->encode, map.build_id, strlen(map.build_id));
    return id;
}

/* The id of a mapping in the given variant; also updates which properties all its locations have. 0: an error. */
static uint32_t mapping_id(struct dp_locations *l, const struct dp_location_mapping *has)
{
    if (widen(l, has->index))
        return 0;
    uint32_t *id = &l->ids.at[2 * has->index + has->has_lines];
    if (!*id && !(*id = new_mapping(l, has)))
        return 0;
    struct dp_location_mapping *m = &l->mappings.at[*id - 1];
    m->has_files &= has->has_files;
    m->has_numbers &= has->has_numbers;
    m->has_inlines &= has->has_inlines;
    return *id;
}

/* ---- locations -------------------------------------------------------------------------------------------------- */

#define LINES_MAX 64

/* A new location of n lines in the mapping, which has their properties. */
static uint32_t emit_location(struct dp_locations *l, struct dp_location_mapping *has, uint64_t pc,
                              struct dp_encode_line *lines, int n)
{
    has->has_inlines = has->has_numbers && l->settings.symbolize == DP_SYMBOLIZE_LINES;
    uint32_t id = mapping_id(l, has);
    if (!id)
        return fail(l, -ENOMEM);
    if (!n && has->index != DP_MAPPING_ANON && l->settings.symbolize != DP_SYMBOLIZE_NONE)
        lines[n++] =
            (struct dp_encode_line){.function = dp_line_function_place(l->encode, &l->mappings.at[id - 1].map, pc)};
    uint64_t address = l->settings.address == DP_ADDRESS_ELF ? pc - l->mappings.at[id - 1].map.bias : pc;
    if (has->index == DP_MAPPING_ANON && address < l->anon_start[has->has_lines])
        l->anon_start[has->has_lines] = address;
    if (has->index == DP_MAPPING_ANON && address >= l->anon_limit[has->has_lines])
        l->anon_limit[has->has_lines] = address + 1;
    uint32_t ref = dp_encode_ref(dp_encode_location(l->encode, id, address, lines, (size_t)n));
    if (dp_encode_error(l->encode)) /* it was not written */
        return fail(l, dp_encode_error(l->encode));
    return ref ? ref : fail(l, -EOVERFLOW);
}

static uint32_t add_symbol(struct dp_locations *l, uint32_t index, uint64_t pc, const struct dp_symbols_symbol *symbol,
                           bool is_reversed)
{
    struct dp_encode_line out[LINES_MAX];
    int n = !symbol ? 0 : symbol->n_lines < LINES_MAX ? symbol->n_lines : LINES_MAX;
    struct dp_location_mapping has = {.index = index, .has_lines = n > 0, .has_files = n > 0, .has_numbers = n > 0};
    for (int i = 0; i < n; i++) {
        const struct dp_symbols_function *f = symbol->lines[i].function;
        out[is_reversed ? n - 1 - i : i] = (struct dp_encode_line){
            .function = dp_line_functions_id(&l->functions, l->encode, f->number), .line = symbol->lines[i].line};
        has.has_files &= f->file != NULL;
        has.has_numbers &= symbol->lines[i].line > 0;
    }
    return emit_location(l, &has, pc, out, n);
}

uint32_t dp_locations_line(struct dp_locations *l, const struct dp_symbols_place *line, uint64_t pc)
{
    uint64_t function = dp_line_functions_id(&l->functions, l->encode, line->function);
    if (l->usual.id && line->mapping == l->usual.mapping && line->has_file == l->usual.has_file && !line->line) {
        uint32_t ref = dp_encode_location_usual(l->encode, l->usual.id, pc - l->usual.bias, dp_encode_ref(function));
        if (ref)
            return ref;
    }
    struct dp_location_mapping has = {
        .index = line->mapping, .has_lines = 1, .has_files = line->has_file, .has_numbers = line->line > 0};
    struct dp_encode_line out = {.function = function, .line = line->line};
    uint32_t ref = emit_location(l, &has, pc, &out, 1);
    l->usual.id = ref && !line->line && line->mapping != DP_MAPPING_ANON ? mapping_id(l, &has) : 0;
    l->usual.mapping = line->mapping;
    l->usual.has_file = line->has_file;
    l->usual.bias = l->usual.id && l->settings.address == DP_ADDRESS_ELF ? l->mappings.at[l->usual.id - 1].map.bias : 0;
    return ref;
}

uint32_t dp_locations_named(struct dp_locations *l, uint64_t address, const struct deltaprof_frame_name *name)
{
    struct dp_symbol_line line = {.name = name->function, .file = name->file, .start_line = name->start_line};
    bool named = name->function;
    struct dp_location_mapping has = {.index = DP_MAPPING_ANON,
                                      .has_lines = named,
                                      .has_files = named && name->file,
                                      .has_numbers = named && name->line > 0};
    struct dp_encode_line out = {.line = name->line};
    if (named)
        out.function = dp_line_function(l->encode, &line);
    return emit_location(l, &has, address, &out, named);
}

/* The cached facts about a frame of code. */
struct found {
    dp_frame_id id;
    uint32_t index;
    const struct dp_symbols_symbol *symbol;
};
#define FOUND_MAX 64 /* look-ups while the lock is held once */

static void remember(struct dp_locations *l, struct dp_location_map *map, dp_frame_id id, uint32_t ref)
{
    dp_frame_id *met = ref ? dp_vec_push(&map->met) : NULL;
    if (met) {
        *met = id;
        map->refs.at[id] = ref;
    } else {
        fail(l, -ENOMEM); /* give has told its own error already */
    }
}

static const struct dp_symbols_symbol *symbol_of(struct dp_locations *l, const struct found *f)
{
    if (l->settings.no_wait) {
        bool missed;
        const struct dp_symbols_symbol *symbol = dp_symbols_cached(f->id, f->index, l->settings.symbolize, &missed);
        l->n_missed += missed;
        return symbol;
    }
    return dp_symbols_find(l->settings.files, f->id, dp_frame_get(f->id)->pc, f->index, l->settings.symbolize);
}

/* A location with one line serves both maps. */
static void resolve(struct dp_locations *l, struct dp_location_map *map, const struct found *f)
{
    bool is_reversed = map == &l->reversed, is_shared = is_reversed && (!f->symbol || f->symbol->n_lines < 2);
    remember(l, map, f->id,
             is_shared ? dp_locations_frame(l, f->id)
                       : add_symbol(l, f->index, dp_frame_get(f->id)->pc, f->symbol, is_reversed));
}

static void look_up(struct dp_locations *l, struct dp_location_map *map, struct found *found, size_t n)
{
    int err = dp_symbols_lock(!l->settings.no_wait);
    if (err) {
        fail(l, err);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        found[i].index = dp_symbols_maps_find(found[i].id);
        found[i].symbol = symbol_of(l, &found[i]);
    }
    dp_symbols_unlock();
    for (size_t i = 0; i < n && !l->err; i++)
        if (!map->refs.at[found[i].id]) /* a frame may occur twice in a stack */
            resolve(l, map, &found[i]);
}

void dp_locations_lines(struct dp_locations *l, const dp_frame_id *frames, size_t n, struct dp_symbols_place *lines)
{
    memset(lines, 0, n * sizeof *lines);
    if (dp_symbols_lock(!l->settings.no_wait))
        return;
    for (size_t i = 0; i < n; i++) {
        struct found f = {.id = frames[i], .index = dp_symbols_maps_find(frames[i])};
        bool missed;
        f.symbol = dp_symbols_cached(f.id, f.index, l->settings.symbolize, &missed);
        if (f.symbol && f.symbol->n_lines == 1 && f.index < 1u << 30 && f.symbol->lines[0].line >> 32 == 0)
            lines[i] = (struct dp_symbols_place){.mapping = f.index,
                                                 .has_file = f.symbol->lines[0].function->file != NULL,
                                                 .is_known = 1,
                                                 .function = f.symbol->lines[0].function->number,
                                                 .line = (uint32_t)f.symbol->lines[0].line};
    }
    dp_symbols_unlock();
}

/* The name of a frame that is not code: a synthetic one, or one that a runtime gave. */
static struct deltaprof_frame_name name_of(dp_frame_id id, const struct dp_frame *frame)
{
    if (frame->type != DP_FRAME_NAMED)
        return (struct deltaprof_frame_name){.function = dp_frame_synthetic_name(id)};
    struct dp_function f = dp_function_get((uint32_t)(frame->pc >> 32));
    return (struct deltaprof_frame_name){
        .function = f.name, .file = *f.file ? f.file : NULL, .line = (uint32_t)frame->pc, .start_line = f.first_line};
}

/* Makes the locations of frames that were not met yet. */
static void resolve_all(struct dp_locations *l, struct dp_location_map *map, const dp_frame_id *frames, size_t n)
{
    struct found found[FOUND_MAX];
    size_t n_found = 0;
    for (size_t i = 0; i < n && !l->err; i++) {
        dp_frame_id id = frames[i];
        if (map->refs.at[id])
            continue;
        const struct dp_frame *frame = dp_frame_get(id);
        if (id >= DP_FRAME_FIRST_REAL && frame->type == DP_FRAME_CODE) {
            found[n_found++] = (struct found){.id = id};
        } else {
            struct deltaprof_frame_name name = name_of(id, frame);
            remember(l, map, id, dp_locations_named(l, 0, &name));
        }
        if (n_found == FOUND_MAX) {
            look_up(l, map, found, n_found);
            n_found = 0;
        }
    }
    if (n_found && !l->err)
        look_up(l, map, found, n_found);
}

/* Grows the map to a power of two above all ids; `bits` is the or of the ids. */
static int cover(struct dp_locations *l, struct dp_location_map *map, dp_frame_id bits)
{
    size_t want = 1024, least = dp_frames_count();
    while (want <= bits || want < least)
        want *= 2;
    if (!dp_vec_room(&map->refs, want - map->refs.n)) {
        fail(l, -ENOMEM);
        return -ENOMEM;
    }
    map->refs.n = want;
    return 0;
}

int dp_locations_prepare(struct dp_locations *l)
{
    l->err = 0;
    bool is_ready = dp_frames_count() <= l->by_frame.refs.n || !cover(l, &l->by_frame, 0);
    return is_ready && dp_vec_room(&l->by_frame.met, 1) ? 0 : -ENOMEM;
}

void dp_locations_stack_in(struct dp_locations *l, struct dp_location_map *map, const dp_frame_id *frames, size_t n,
                           uint32_t *refs)
{
    dp_frame_id bits = 0;
    uint32_t unknown = 0;
    for (size_t i = 0; i < n; i++)
        bits |= frames[i];
    if (bits >= map->refs.n && cover(l, map, bits)) {
        memset(refs, 0, n * sizeof *refs);
        return;
    }
    const uint32_t *by_frame = map->refs.at;
    for (size_t i = 0; i < n; i++) {
        refs[i] = by_frame[frames[i]];
        unknown += refs[i] == 0;
    }
    if (!unknown)
        return;
    resolve_all(l, map, frames, n);
    for (size_t i = 0; i < n; i++)
        refs[i] = map->refs.at[frames[i]];
}

uint32_t dp_locations_frame(struct dp_locations *l, dp_frame_id id)
{
    uint32_t ref;
    dp_locations_stack(l, &id, 1, &ref);
    return ref;
}

/* ---- exact addresses -------------------------------------------------------------------------------------------- */

static struct dp_location_exact *find_exact(struct dp_location_exact *at, size_t n, dp_frame_id function,
                                            uint32_t distance)
{
    size_t i = dp_hash_mix((uint64_t)function << 32 | distance) & (n - 1);
    while (at[i].ref && (at[i].function != function || at[i].distance != distance))
        i = (i + 1) & (n - 1);
    return &at[i];
}

/* The place of an address; NULL: no memory. */
static struct dp_location_exact *place_exact(struct dp_locations *l, dp_frame_id function, uint32_t distance)
{
    enum { LEAST = 256 };
    if (l->exact.n_used >= l->exact.n / 2) {
        __typeof__(l->exact) wider = {.n_used = l->exact.n_used};
        size_t n = l->exact.n ? 2 * l->exact.n : LEAST;
        if (!dp_vec_room(&wider, n))
            return NULL;
        wider.n = n;
        for (size_t i = 0; i < l->exact.n; i++)
            if (l->exact.at[i].ref)
                *find_exact(wider.at, n, l->exact.at[i].function, l->exact.at[i].distance) = l->exact.at[i];
        dp_vec_fini(&l->exact);
        l->exact = wider;
    }
    return find_exact(l->exact.at, l->exact.n, function, distance);
}

/* The frame of an address, whose line is then kept as those of others are. 0: its line is not wanted, or no room. */
static dp_frame_id frame_exact(const struct dp_locations *l, const struct dp_frame *function, uint32_t distance)
{
    bool wanted = l->settings.symbolize == DP_SYMBOLIZE_LINES && function->object && distance;
    return wanted && dp_frames_count() < dp_frames_capacity() / 2
               ? dp_frame_intern_in(function->object, function->pc + distance)
               : 0;
}

static uint32_t make_exact(struct dp_locations *l, dp_frame_id function, uint64_t pc)
{
    struct found found = {.id = function};
    int err = dp_symbols_lock(!l->settings.no_wait);
    if (err)
        return fail(l, err);
    found.index = dp_symbols_maps_find(function);
    found.symbol = symbol_of(l, &found);
    dp_symbols_unlock();
    return add_symbol(l, found.index, pc, found.symbol, false);
}

uint32_t dp_locations_exact(struct dp_locations *l, dp_frame_id function, uint32_t distance)
{
    const struct dp_frame *frame = dp_frame_get(function);
    dp_frame_id own = frame_exact(l, frame, distance);
    if (own || !distance)
        return dp_locations_frame(l, own ? own : function);
    struct dp_location_exact *place = place_exact(l, function, distance);
    if (!place)
        return fail(l, -ENOMEM);
    if (!place->ref) {
        uint32_t ref = make_exact(l, function, frame->pc + distance);
        *place = (struct dp_location_exact){function, distance, ref};
        l->exact.n_used += ref != 0;
    }
    return place->ref;
}

bool dp_locations_clear_no_memory(struct dp_locations *l)
{
    bool was_full = dp_encode_clear_no_memory(l->encode) || l->err == -ENOMEM;
    if (!was_full || (l->err && l->err != -ENOMEM) || dp_encode_error(l->encode))
        return false;
    l->err = 0;
    return true;
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

static void write_mapping(struct dp_locations *l, const struct dp_location_mapping *m)
{
    const struct dp_symbols_mapping *map = &m->map;
    uint64_t bias = l->settings.address == DP_ADDRESS_ELF ? map->bias : 0;
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
        out.start = dp_page_floor(l->anon_start[m->has_lines]);
        out.limit = dp_page_ceil(l->anon_limit[m->has_lines]);
        if (out.limit <= out.start)
            out.limit = UINT64_MAX; /* the last page of all */
    }
    dp_encode_mapping(l->encode, &out);
}

int dp_locations_end(struct dp_locations *l)
{
    for (size_t i = 0; !l->err && i < l->mappings.n; i++)
        write_mapping(l, &l->mappings.at[i]);
    reset(l);
    return l->err;
}

void dp_locations_fini(struct dp_locations *l)
{
    dp_vec_fini(&l->by_frame.refs);
    dp_vec_fini(&l->by_frame.met);
    dp_vec_fini(&l->reversed.refs);
    dp_vec_fini(&l->reversed.met);
    dp_vec_fini(&l->exact);
    dp_vec_fini(&l->ids);
    dp_vec_fini(&l->mappings);
    dp_line_functions_fini(&l->functions);
}

size_t dp_locations_bytes(const struct dp_locations *l)
{
    return l->exact.cap * sizeof *l->exact.at +
           (l->by_frame.refs.cap + l->reversed.refs.cap) * sizeof *l->by_frame.refs.at +
           (l->by_frame.met.cap + l->reversed.met.cap) * sizeof *l->by_frame.met.at + l->ids.cap * sizeof *l->ids.at +
           l->mappings.cap * sizeof *l->mappings.at + l->functions.ids.cap * sizeof *l->functions.ids.at;
}
