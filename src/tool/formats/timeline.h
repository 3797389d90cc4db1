/* SPDX-License-Identifier: MIT */
/*
 * tool/formats/timeline.h - collects events of profiles, by process and thread and in the order of time, for writers of
 * trace formats.
 *
 * An event is a sample with the number label end_timestamp_ns, as the files of kind `events` have them.
 */
#pragma once

#include "tool/query/frame_names.h"
#include "pprof/gzip.h"
#include "profile/kinds.h"

/* Its values are those of enum dp_kind_event, found by the names of sample types; other types are left out. */
struct dp_formats_timeline_event {
    int64_t end_ns, duration_ns; /* Unix time; the duration of a wait or state */
    int64_t values[DP_KIND_EVENT_TYPES];
    uint32_t thread;
    uint32_t row; /* of the model: stack and labels */
};

struct dp_formats_timeline_thread {
    uint32_t process;
    int64_t tid;
    uint32_t name; /* string of the model; 0: not known */
    bool has_states;
};

struct dp_formats_timeline_process {
    char name[64];
    int64_t pid;
};

/* The values of a heap profile at its time. */
struct dp_formats_timeline_level {
    uint32_t process;
    int64_t time_ns, inuse_bytes;
};

/* Zero is an empty one. */
struct dp_formats_timeline {
    struct dp_model model; /* of the events */
    struct dp_query_naming_frames frames;
    DP_VEC(struct dp_formats_timeline_event) events;
    DP_VEC(struct dp_formats_timeline_thread) threads;
    DP_VEC(struct dp_formats_timeline_process) processes;
    DP_VEC(struct dp_formats_timeline_level) levels;
    size_t n_untimed; /* samples without a time, left out */
    int64_t begin_ns; /* after sort: the earliest begin of an event or level */
};

/* Adds the events of a profile of that process. 0, -EBADMSG with *error filled in, or -ENOMEM. */
int dp_formats_timeline_add(struct dp_formats_timeline *, const struct dp_decode *,
                            const struct dp_formats_timeline_process *, struct dp_decode_error *);
/* Adds the in-use values of a heap profile of that process. Errors as for add. */
int dp_formats_timeline_add_level(struct dp_formats_timeline *, const struct dp_decode *,
                                  const struct dp_formats_timeline_process *, struct dp_decode_error *);

/* Once, after the last add: sorts by time. */
void dp_formats_timeline_sort(struct dp_formats_timeline *);
void dp_formats_timeline_fini(struct dp_formats_timeline *);

/*
 * Perfetto's trace format: a track a thread with waits as slices, other events as instants, and below it the states of
 * the thread; counters of memory. The processed profile format of Firefox Profiler: native allocations, and markers for
 * waits and states. 0, fn's error, or -ENOMEM.
 */
int dp_formats_timeline_write_perfetto(struct dp_formats_timeline *, dp_pprof_write_fn fn, void *ctx);
int dp_formats_timeline_write_firefox(struct dp_formats_timeline *, dp_pprof_write_fn fn, void *ctx);

/* Whether the event is a wait, and has a length. */
static inline bool dp_formats_timeline_is_wait(const struct dp_formats_timeline_event *e)
{
    return e->values[DP_KIND_EVENT_CONTENTIONS] || e->values[DP_KIND_EVENT_DELAY];
}

/* Whether the event is time of a thread off the processor, in a state. */
static inline bool dp_formats_timeline_is_state(const struct dp_formats_timeline_event *e)
{
    return e->values[DP_KIND_EVENT_WALL_SAMPLES] || e->values[DP_KIND_EVENT_WALL];
}

/* The text of the event's label; NULL: it has none. */
const char *dp_formats_timeline_label(const struct dp_formats_timeline *, const struct dp_formats_timeline_event *,
                                      const char *key);
