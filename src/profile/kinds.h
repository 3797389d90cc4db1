/* SPDX-License-Identifier: MIT */
/*
 * profile/kinds.h - the table of the kinds of profile: names, sample types, endpoints. Data only, for the host, the
 * commands and the page. What the host does for a kind is in struct dp_kind_source (host/report/kind_source.h).
 */
#pragma once

#include "base/atomic.h"
#include "base/stats.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * The kinds of the public interface, in the order of enum deltaprof_kind: those with records in the table of the hooks,
 * and deltas. X(HEAP, heap) stands for DP_KIND_HEAP, and for dp_heap_source in host/report/kind_sources.c.
 */
#define DP_KINDS_OF_DELTAS(X) \
    X(HEAP, heap)             \
    X(MUTEX, mutex)           \
    X(BLOCK, block)           \
    X(CPU, cpu)               \
    X(CHAIN, chain)           \
    X(WALL, wall)

#define DP_KIND_ID(ID, name) DP_KIND_##ID,

/* Behind them the kinds that are only files. */
enum dp_kind_id {
    DP_KINDS_OF_DELTAS(DP_KIND_ID) DP_KIND_EVENTS,
    DP_KINDS,                        /* number of all kinds; as a kind: none */
    DP_KIND_TABLES = DP_KIND_EVENTS, /* number of kinds with records in the table */
    DP_KIND_DELTAS = DP_KIND_EVENTS, /* number of kinds with deltas */
};

/*
 * Frames of a chain, between the stack that waited and that of the holder; and in place of the holder's, where the lock
 * was free.
 */
#define DP_CHAIN_HELD_BY   "[held by]"
#define DP_CHAIN_HAND_OVER "[hand-over]"

enum { DP_KIND_TYPES_MAX = 17, DP_KIND_VALUES_MAX = 4, DP_KIND_ENDPOINTS_MAX = 4 };

enum dp_kind_nature {
    DP_KIND_FLOW,  /* happened in the profile's window: successive windows add up */
    DP_KIND_LEVEL, /* stands at the end of the window */
};

/* The columns of files of events: their sample types, by number. */
enum dp_kind_event {
    DP_KIND_EVENT_NONE = -1,
    DP_KIND_EVENT_ALLOC_OBJECTS,
    DP_KIND_EVENT_ALLOC_SPACE,
    DP_KIND_EVENT_CONTENTIONS,
    DP_KIND_EVENT_DELAY,
    DP_KIND_EVENT_MUTEX_CONTENTIONS,
    DP_KIND_EVENT_MUTEX_DELAY,
    DP_KIND_EVENT_SAMPLES,
    DP_KIND_EVENT_CPU,
    DP_KIND_EVENT_WALL_SAMPLES,
    DP_KIND_EVENT_WALL,
    DP_KIND_EVENT_TYPES,
};

struct dp_kind_type {
    const char *name, *unit;
    enum dp_kind_nature nature;
    enum dp_kind_event event; /* the column that has this value in files of events */
};

/* A profile at /debug/pprof/NAME. */
struct dp_kind_endpoint {
    const char *name;
    bool is_delta;            /* since the cursor's last reply; else since start */
    const char *default_type; /* NULL: the kind's own */
    const char *words;        /* for the index page */
    unsigned seconds;         /* the window, unless the request says another one; 0: since start */
};

struct dp_kind {
    const char *name;           /* in names of files and in messages */
    unsigned rank;              /* of several kinds of file, commands choose the one with the lowest */
    const char *receivers_name; /* in pushed profiles */
    const char *title;          /* comment that pprof shows; NULL: the sample types tell the kind */
    const char *untitled;       /* if its title is missing: what to call it, of several kinds; NULL: its name */
    const char *frame;          /* a function that profiles of no other kind have; NULL: there is none */
    struct dp_kind_type types[DP_KIND_TYPES_MAX];
    unsigned n_types, n_values; /* values: the types that every row has; the others are added on demand, in groups */
    const char *period_type, *period_unit;
    const char *keys;     /* of the configuration, with values that switch the kind on */
    unsigned table_share; /* of the memory for records, relative to the other kinds; 0: no records in the table */
    bool can_grow;        /* its records may use memory that other parts of the profiler leave unused */
    bool has_locks;       /* rows have a lock kind, by which requests filter */
    bool has_durations;   /* its events may last for another time than their value */
    bool tells_stuck;     /* its profiles have the comment of threads that have waited long */
    unsigned losses;      /* enum dp_stats_subject, or'ed: the counters that its profiles have */
    const char *if_empty; /* why a profile of it has no samples, and what would give it some; NULL: not known */
    struct {
        const char *words, *beside_words; /* why there is no profile of the kind; if there is one of `beside` */
        enum dp_kind_id beside;
    } absence;
    bool is_settled_late; /* a process keeps a part to itself until it reports: its tables alone are not whole */
    struct dp_kind_endpoint endpoints[DP_KIND_ENDPOINTS_MAX]; /* up to the first without a name */
};

extern const struct dp_kind dp_kind_table[DP_KINDS] DP_INTERNAL; /* by enum dp_kind_id */

/* Within it, several processes write the profiles of one tick. */
extern const unsigned dp_kind_tick_slack_ms DP_INTERNAL;

/* The kind of that name; DP_KINDS: none. */
unsigned dp_kind_named(const char *name, size_t n_bytes);

/* Whether one of its values is a level: memory that is in use, for example. */
bool dp_kind_has_levels(unsigned kind);

/* Whether the kind has a sample type of that name. */
bool dp_kind_has_type(unsigned kind, const char *type);

/* Whether a kind's profiles have a sample type of that name on demand only, as by types=waste or age=on. */
bool dp_kind_type_is_on_demand(const char *name);

/* The kind with deltas that has a sample type of that name, the one of lowest rank; DP_KINDS: none. */
unsigned dp_kind_by_type(const char *type);

/*
 * Whether the values of this sample type are levels, or flows. Of the types that no kind has, inuse_* are levels,
 * alloc_* are flows, and all others are neither: a merge sums them, a difference keeps them.
 */
bool dp_kind_type_is_level(const char *name);
bool dp_kind_type_is_flow(const char *name);

/* The endpoint of that name and its kind; NULL: none. */
const struct dp_kind_endpoint *dp_kind_endpoint_named(const char *name, size_t n_bytes, unsigned *kind);
/* Endpoint i in the order of the index page: the deltas first. NULL: beyond the last. */
const struct dp_kind_endpoint *dp_kind_endpoint_at(size_t i, unsigned *kind);
