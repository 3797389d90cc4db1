/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/maps.c - finds the mapping of a frame, once per frame, and caches it by frame id.
 *
 * A mapping belongs to an object (host/objects/frames.h) and a frame names its object: an address alone does not tell
 * which of two libraries that lay there one after the other is meant. While the object is loaded, the bounds of the
 * segment come from /proc/self/maps. If it was unloaded before any report saw it, they come from its file, if that
 * still has the build-id; else the object's whole range is used. Frames without an object lie in another file's
 * mapping, in a second mapping of an object's file, which has its build-id, or in [anon]. Nothing here calls the
 * loader, so it works in a forked child too.
 */
#include "host/symbols/maps.h"

#include "base/epoch.h"
#include "base/mem.h"
#include "host/symbols/name_set.h"
#include "host/symbols/outside.h"
#include "host/symbols/segment.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

static struct {
    DP_VEC(struct dp_symbols_mapping) known;
    DP_VEC(uint32_t) by_frame; /* index + 1; 0: not asked yet */
    struct dp_symbols_segments segments;
    enum { OLD, INHERITED, FRESH } segments_are; /* FRESH: they were read in this report */
    bool learned;                                /* segments are good for children of process `epoch` */
    uint32_t epoch;
    struct dp_symbols_names names;
} maps;

static const char *intern_text(const char *text, size_t n_bytes)
{
    const char *kept = dp_symbols_names_keep(&maps.names, text, n_bytes);
    return kept ? kept : "";
}

static const char *intern_hex(const uint8_t *bytes, size_t n_bytes)
{
    char text[2 * sizeof((struct dp_object *)0)->build_id];
    for (size_t i = 0; i < n_bytes; i++) {
        text[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        text[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    return intern_text(text, 2 * n_bytes);
}

/* Reads /proc/self/maps at most once in a report. */
static const struct dp_symbols_segment *segment_at(uintptr_t pc)
{
    const struct dp_symbols_segment *s = maps.segments_are != OLD ? dp_symbols_segments_find(&maps.segments, pc) : NULL;
    if (maps.segments_are == FRESH || (s && s->n_path))
        return s;
    maps.segments_are = FRESH;
    dp_symbols_segments_read(&maps.segments);
    return dp_symbols_segments_find(&maps.segments, pc);
}

/* Returns its index, or that of ANON if there is no room. */
static uint32_t add(const struct dp_symbols_mapping *mapping)
{
    struct dp_symbols_mapping *kept = dp_vec_push(&maps.known);
    if (!kept)
        return DP_MAPPING_ANON;
    *kept = *mapping;
    return (uint32_t)maps.known.n - 1;
}

static void from_segment(struct dp_symbols_mapping *m, const struct dp_symbols_segment *s)
{
    m->start = s->start;
    m->limit = s->limit;
    m->offset = s->offset;
}

/*
 * Whether /proc/self/maps shows another library than the object: the object was closed and another one opened
 * meanwhile.
 */
static bool is_another(const struct dp_symbols_segment *s, const char *file, const struct dp_object *o, uintptr_t pc)
{
    const char *name = dp_object_name(o);
    struct dp_symbols_segment in_file;
    return *name && strcmp(file, name) && o->build_id_bytes && !dp_symbols_segments_is_file(&maps.segments, s, name) &&
           dp_symbols_segment_of_file(file, o->build_id, o->build_id_bytes, o->bias, pc, &in_file) == -ESTALE;
}

/* Finds the object's segment at pc, from the best source available. */
static void describe(struct dp_symbols_mapping *m, const struct dp_object *o, uintptr_t pc)
{
    const char *name = dp_object_name(o);
    m->bias = o->bias;
    m->build_id = intern_hex(o->build_id, o->build_id_bytes);
    const struct dp_symbols_segment *s = segment_at(pc);
    if (s && s->n_path && s->start >= dp_page_floor(o->start) && s->start < o->end && !dp_load_relaxed(&o->retired)) {
        from_segment(m, s);
        m->file = intern_text(maps.segments.text.at + s->path, s->n_path);
        if (!is_another(s, m->file, o, pc))
            return;
    }
    if (!*name) {
        const char *exec = dp_symbols_outside.is_on ? dp_symbols_outside.exe : (const char *)getauxval(AT_EXECFN);
        name = exec ? exec : "";
    }
    if (!strncmp(name, "linux-vdso.", 11)) /* the loader's name of what /proc/self/maps calls so */
        name = "[vdso]";
    m->file = intern_text(name, strlen(name));
    struct dp_symbols_segment in_file;
    if (*name == '/' && !dp_symbols_segment_of_file(name, o->build_id, o->build_id_bytes, o->bias, pc, &in_file)) {
        from_segment(m, &in_file);
        return;
    }
    m->start = dp_page_floor(o->start);
    m->limit = dp_page_ceil(o->end);
    m->offset = 0;
}

/* Whether a segment of the object is mapped from the same file as s. */
static bool is_from_file(const struct dp_object *o, const struct dp_symbols_segment *s)
{
    for (size_t i = 0; i < maps.segments.n; i++) {
        const struct dp_symbols_segment *other = &maps.segments.at[i];
        if (other->limit > o->start && other->start < o->end && dp_symbols_segments_same_file(&maps.segments, s, other))
            return true;
    }
    return false;
}

/* The build-id of a segment that the loader does not know: a program may map its own code a second time, as V8 does
 * with its builtins. Then an object of the same file is loaded. */
static const char *build_id_of_file(const struct dp_symbols_segment *s)
{
    uint32_t n = dp_objects_count();
    for (dp_object_id id = 1; id < n; id++) {
        const struct dp_object *o = dp_object_get(id);
        if (dp_load_acquire(&o->ready) && !dp_load_relaxed(&o->retired) && is_from_file(o, s))
            return intern_hex(o->build_id, o->build_id_bytes);
    }
    return "";
}

/* The bias of a segment that the loader does not know: offsets in a file are no addresses (V8's builtins in node). */
static uintptr_t bias_of_file(const char *file, const struct dp_symbols_segment *s)
{
    uintptr_t bias;
    if (dp_symbols_segments_is_file(&maps.segments, s, file) && !dp_symbols_segment_bias(file, s, &bias))
        return bias;
    return s->start - s->offset;
}

static uint32_t find(dp_object_id object, uintptr_t pc)
{
    for (size_t i = 0; i < maps.known.n; i++) {
        const struct dp_symbols_mapping *m = &maps.known.at[i];
        if (m->object == object && pc >= m->start && pc < m->limit)
            return (uint32_t)i;
    }
    struct dp_symbols_mapping m = {.object = object, .build_id = ""};
    if (object) {
        describe(&m, dp_object_get(object), pc);
        return add(&m);
    }
    const struct dp_symbols_segment *s = segment_at(pc);
    if (!s || !s->n_path)
        return DP_MAPPING_ANON;
    from_segment(&m, s);
    m.file = intern_text(maps.segments.text.at + s->path, s->n_path);
    m.bias = bias_of_file(m.file, s);
    m.build_id = build_id_of_file(s);
    return add(&m);
}

struct dp_symbols_outside dp_symbols_outside;

/* An address of code in an object, by a frame that lies there; 0: there is none. */
static uintptr_t code_in(dp_object_id object)
{
    uint32_t n = dp_frames_count();
    for (dp_frame_id id = DP_FRAME_FIRST_REAL; id < n; id++)
        if (dp_frame_get(id)->type == DP_FRAME_CODE && dp_frame_get(id)->object == object)
            return dp_frame_get(id)->pc;
    return 0;
}

/*
 * The path that the program was started by, if that is a link to the file: users know the program by that name. Readers
 * of profiles open either.
 */
static const char *as_run(const char *file)
{
    const char *exec = dp_symbols_outside.is_on ? dp_symbols_outside.execfn : (const char *)getauxval(AT_EXECFN);
    struct stat its, ours;
    if (!exec || *exec != '/' || !strcmp(exec, file) || stat(exec, &its) || stat(file, &ours) ||
        its.st_ino != ours.st_ino || its.st_dev != ours.st_dev)
        return file;
    const char *kept = intern_text(exec, strlen(exec));
    return *kept ? kept : file;
}

/* The main program always comes first: pprof takes mapping[0] for it. */
static void init(void)
{
    static const struct dp_symbols_mapping anon = {.limit = 0, .file = "[anon]", .build_id = ""};
    struct dp_symbols_mapping main = {.build_id = "", .file = ""};
    uintptr_t entry = getauxval(AT_ENTRY);
    if (dp_symbols_outside.is_on) {
        main.object = dp_objects_main();
        entry = main.object ? code_in(main.object) : 0;
    } else {
        dp_frame_id id = dp_frame_intern(entry);
        main.object = id ? dp_frame_get(id)->object : 0;
    }
    if (main.object) {
        describe(&main, dp_object_get(main.object), entry);
    } else if (dp_symbols_outside.is_on) {
        main.file = intern_text(dp_symbols_outside.exe, strlen(dp_symbols_outside.exe));
    } else {
        const struct dp_symbols_segment *s = segment_at(entry);
        if (s) {
            from_segment(&main, s);
            main.file = intern_text(maps.segments.text.at + s->path, s->n_path);
            main.bias = bias_of_file(main.file, s);
        }
    }
    main.file = as_run(main.file);
    add(&main);
    add(&anon);
}

int dp_symbols_maps_begin(void)
{
    maps.segments_are = maps.learned && maps.epoch != dp_epoch() ? INHERITED : OLD;
    if (maps.known.n)
        return 0;
    return dp_vec_room(&maps.known, 64) ? (init(), 0) : -ENOMEM;
}

uint32_t dp_symbols_maps_find(dp_frame_id id)
{
    if (id < maps.by_frame.n && maps.by_frame.at[id])
        return maps.by_frame.at[id] - 1;
    const struct dp_frame *frame = dp_frame_get(id);
    uint32_t index = find(frame->object, frame->pc);
    size_t want = (size_t)id + 1;
    if (want > maps.by_frame.n && dp_vec_room(&maps.by_frame, want - maps.by_frame.n))
        maps.by_frame.n = want;
    if (want <= maps.by_frame.n)
        maps.by_frame.at[id] = index + 1;
    return index;
}

/* The entry that it may add has no range, so no frame is found in it. */
uint32_t dp_symbols_maps_of_object(dp_object_id object)
{
    for (size_t i = 0; i < maps.known.n; i++)
        if (maps.known.at[i].object == object && i != DP_MAPPING_ANON)
            return (uint32_t)i;
    const struct dp_object *o = dp_object_get(object);
    const char *name = *dp_object_name(o) ? dp_object_name(o) : maps.known.at[DP_MAPPING_MAIN].file;
    struct dp_symbols_mapping m = {.object = object, .bias = o->bias};
    m.build_id = intern_hex(o->build_id, o->build_id_bytes);
    m.file = intern_text(name, strlen(name));
    return add(&m);
}

uint32_t dp_symbols_maps_count(void)
{
    return (uint32_t)maps.known.n;
}

struct dp_symbols_mapping dp_symbols_maps_get(uint32_t index)
{
    return maps.known.at[index];
}

void dp_symbols_maps_learn(void)
{
    maps.learned = !dp_symbols_segments_read(&maps.segments);
    maps.epoch = dp_epoch();
}

void dp_symbols_maps_abandon(void)
{
    memset(&maps, 0, sizeof maps);
}
