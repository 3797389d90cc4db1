/* SPDX-License-Identifier: MIT */
/*
 * profile/kinds.c - the table of the kinds of profile. Sample types, units and periods are those of Go's profiles.
 *
 * Mutex, block and chain profiles have the same sample types. pprof's title is the text behind the first "Type: " in
 * what it shows above a report, and comments come first there: so a comment tells the kinds apart.
 */
#include "profile/kinds.h"

#include <string.h>

const struct dp_kind dp_kind_table[DP_KINDS] = {
    [DP_KIND_HEAP] =
        {
            .name = "heap",
            .rank = 0,
            .receivers_name = "memory",
            .types =
                {
                    {"alloc_objects", "count", DP_KIND_FLOW, DP_KIND_EVENT_ALLOC_OBJECTS},
                    {"alloc_space", "bytes", DP_KIND_FLOW, DP_KIND_EVENT_ALLOC_SPACE},
                    {"inuse_objects", "count", DP_KIND_LEVEL, DP_KIND_EVENT_NONE},
                    {"inuse_space", "bytes", DP_KIND_LEVEL, DP_KIND_EVENT_NONE},
                    {"freed_objects", "count", DP_KIND_FLOW,
                     DP_KIND_EVENT_NONE}, /* this and the next seven: with lifetimes */
                    {"temporary_objects", "count", DP_KIND_FLOW, DP_KIND_EVENT_NONE},
                    {"lifetime", "microseconds", DP_KIND_FLOW, DP_KIND_EVENT_NONE},
                    {"temporary_space", "bytes", DP_KIND_FLOW, DP_KIND_EVENT_NONE},
                    {"moved_objects", "count", DP_KIND_FLOW, DP_KIND_EVENT_NONE},
                    {"moved_space", "bytes", DP_KIND_FLOW, DP_KIND_EVENT_NONE},
                    {"outgrown_objects", "count", DP_KIND_FLOW, DP_KIND_EVENT_NONE},
                    {"outgrown_space", "bytes", DP_KIND_FLOW, DP_KIND_EVENT_NONE},
                    {"resident_space", "bytes", DP_KIND_LEVEL, DP_KIND_EVENT_NONE}, /* this and the next four: waste */
                    {"swapped_space", "bytes", DP_KIND_LEVEL, DP_KIND_EVENT_NONE},
                    {"zero_space", "bytes", DP_KIND_LEVEL, DP_KIND_EVENT_NONE},
                    {"pinned_space", "bytes", DP_KIND_LEVEL, DP_KIND_EVENT_NONE},
                    {"idle_space", "bytes", DP_KIND_LEVEL, DP_KIND_EVENT_NONE},
                },
            .n_types = 17,
            .n_values = 4,
            .if_empty = "no sample was recorded. A program that allocates little is seen with a smaller\n"
                        "heap_rate: deltaprof run -o heap_rate=1k -- COMMAND",
            .losses = DP_STATS_ALL | DP_STATS_MEMORY,
            .period_type = "space",
            .period_unit = "bytes",
            .keys = "heap_rate=512k",
            .table_share = 12,
            .can_grow = true,
            .endpoints =
                {
                    {"delta_heap", true, NULL, "allocations since this cursor's last reply, and what is in use now", 0},
                    {"heap", false, NULL, "all sampled allocations since start, and what is in use now", 0},
                    {"allocs", false, "alloc_space", "the same as heap, shown by bytes allocated", 0},
                },
        },
    [DP_KIND_MUTEX] =
        {
            .name = "mutex",
            .rank = 2,
            .receivers_name = "mutex",
            .title = "Type: mutex: who made others wait",
            .untitled = "lock",
            .types =
                {
                    {"contentions", "count", DP_KIND_FLOW, DP_KIND_EVENT_MUTEX_CONTENTIONS},
                    {"delay", "nanoseconds", DP_KIND_FLOW, DP_KIND_EVENT_MUTEX_DELAY},
                },
            .n_types = 2,
            .n_values = 2,
            .losses = DP_STATS_ALL | DP_STATS_HOLDERS,
            .period_type = "contentions",
            .period_unit = "count",
            .keys = "mutex_rate=1",
            .table_share = 2,
            .has_locks = true,
            .has_durations = true,
            .endpoints =
                {
                    {"delta_mutex", true, NULL, "who made others wait for locks, since this cursor's last reply", 0},
                    {"mutex", false, NULL, "who made others wait for locks, since start", 0},
                },
        },
    [DP_KIND_BLOCK] =
        {
            .name = "block",
            .rank = 1,
            .receivers_name = "block",
            .title = "Type: block: where threads waited",
            .untitled = "lock",
            .types =
                {
                    {"contentions", "count", DP_KIND_FLOW, DP_KIND_EVENT_CONTENTIONS},
                    {"delay", "nanoseconds", DP_KIND_FLOW, DP_KIND_EVENT_DELAY},
                },
            .n_types = 2,
            .n_values = 2,
            .if_empty = "no wait was recorded. Short waits are sampled; this records all of them:\n"
                        "deltaprof run -o block_rate=1ns -- COMMAND",
            .losses = DP_STATS_ALL | DP_STATS_WAITS,
            .period_type = "contentions",
            .period_unit = "count",
            .keys = "block_rate=10us",
            .table_share = 2,
            .has_locks = true,
            .has_durations = true,
            .tells_stuck = true,
            .endpoints =
                {
                    {"delta_block", true, NULL, "where threads waited, since this cursor's last reply", 0},
                    {"block", false, NULL, "where threads waited, since start", 0},
                },
        },
    [DP_KIND_CPU] =
        {
            .name = "cpu",
            .rank = 3,
            .receivers_name = "process_cpu",
            .types =
                {
                    {"samples", "count", DP_KIND_FLOW, DP_KIND_EVENT_SAMPLES},
                    {"cpu", "nanoseconds", DP_KIND_FLOW, DP_KIND_EVENT_CPU},
                },
            .n_types = 2,
            .n_values = 2,
            .if_empty = "no thread used CPU time.",
            .losses = DP_STATS_ALL | DP_STATS_TIMERS,
            .period_type = "cpu",
            .period_unit = "nanoseconds",
            .keys = "cpu_rate=10ms",
            .table_share = 2,
            .endpoints =
                {
                    {"delta_cpu", true, NULL, "where threads used CPU time, since this cursor's last reply", 0},
                    {"cpu", false, NULL, "where threads used CPU time, since start", 0},
                    {"profile", false, NULL, "where threads use CPU time in the next 30 seconds, or in ?seconds=N", 30},
                },
        },
    [DP_KIND_CHAIN] =
        {
            .name = "chain",
            .rank = 4,
            .receivers_name = "chain",
            .title = "Type: chain: who waited for whom",
            .frame = DP_CHAIN_HELD_BY,
            .types =
                {
                    {"contentions", "count", DP_KIND_FLOW, DP_KIND_EVENT_NONE},
                    {"delay", "nanoseconds", DP_KIND_FLOW, DP_KIND_EVENT_NONE},
                },
            .n_types = 2,
            .n_values = 2,
            .losses = DP_STATS_ALL | DP_STATS_HOLDERS,
            .period_type = "contentions",
            .period_unit = "count",
            .keys = "mutex_rate=1,block_rate=10us",
            .table_share = 1,
            .has_locks = true,
            .has_durations = true,
            .absence = {"deltaprof run writes some when threads wait for locks",
                        "threads waited, but no holder has released a lock; top --kind block shows the waits, and "
                        "summary names deadlocks",
                        DP_KIND_BLOCK},
            .endpoints =
                {
                    {"delta_chain", true, NULL, "who waited for whom, since this cursor's last reply", 0},
                    {"chain", false, NULL, "who waited for whom, since start", 0},
                },
        },
    [DP_KIND_WALL] =
        {
            .name = "wall",
            .rank = 5,
            .receivers_name = "wall",
            .types =
                {
                    {"samples", "count", DP_KIND_FLOW, DP_KIND_EVENT_WALL_SAMPLES},
                    {"wall", "nanoseconds", DP_KIND_FLOW, DP_KIND_EVENT_WALL},
                },
            .n_types = 2,
            .n_values = 2,
            .if_empty = "no thread was seen.",
            .losses = DP_STATS_ALL | DP_STATS_STATES,
            .period_type = "wall",
            .period_unit = "nanoseconds",
            .keys = "wall_rate=100ms",
            .table_share = 1,
            .has_durations = true,
            .is_settled_late = true,
            .endpoints =
                {
                    {"delta_wall", true, NULL, "where threads spent their time, since this cursor's last reply", 0},
                    {"wall", false, NULL,
                     "where threads spent their time, since start; with ?seconds=N in the next N seconds", 0},
                },
        },
    [DP_KIND_EVENTS] =
        {
            .name = "events",
            .rank = 6,
            .receivers_name = "events",
            .types =
                {
                    [DP_KIND_EVENT_ALLOC_OBJECTS] = {"alloc_objects", "count", DP_KIND_FLOW,
                                                     DP_KIND_EVENT_ALLOC_OBJECTS},
                    [DP_KIND_EVENT_ALLOC_SPACE] = {"alloc_space", "bytes", DP_KIND_FLOW, DP_KIND_EVENT_ALLOC_SPACE},
                    [DP_KIND_EVENT_CONTENTIONS] = {"contentions", "count", DP_KIND_FLOW, DP_KIND_EVENT_CONTENTIONS},
                    [DP_KIND_EVENT_DELAY] = {"delay", "nanoseconds", DP_KIND_FLOW, DP_KIND_EVENT_DELAY},
                    [DP_KIND_EVENT_MUTEX_CONTENTIONS] = {"mutex_contentions", "count", DP_KIND_FLOW,
                                                         DP_KIND_EVENT_MUTEX_CONTENTIONS},
                    [DP_KIND_EVENT_MUTEX_DELAY] = {"mutex_delay", "nanoseconds", DP_KIND_FLOW,
                                                   DP_KIND_EVENT_MUTEX_DELAY},
                    [DP_KIND_EVENT_SAMPLES] = {"samples", "count", DP_KIND_FLOW, DP_KIND_EVENT_SAMPLES},
                    [DP_KIND_EVENT_CPU] = {"cpu", "nanoseconds", DP_KIND_FLOW, DP_KIND_EVENT_CPU},
                    [DP_KIND_EVENT_WALL_SAMPLES] = {"wall_samples", "count", DP_KIND_FLOW, DP_KIND_EVENT_WALL_SAMPLES},
                    [DP_KIND_EVENT_WALL] = {"wall", "nanoseconds", DP_KIND_FLOW, DP_KIND_EVENT_WALL},
                },
            .n_types = DP_KIND_EVENT_TYPES,
            .n_values = DP_KIND_EVENT_TYPES,
            .losses = DP_STATS_TIMES,
            .period_type = "events",
            .period_unit = "count",
        },
};

const unsigned dp_kind_tick_slack_ms = 50;

static bool is_text(const char *text, const char *name, size_t n_bytes)
{
    return text && strlen(text) == n_bytes && !memcmp(text, name, n_bytes);
}

unsigned dp_kind_named(const char *name, size_t n_bytes)
{
    unsigned kind = 0;
    while (kind < DP_KINDS && !is_text(dp_kind_table[kind].name, name, n_bytes))
        kind++;
    return kind;
}

bool dp_kind_has_levels(unsigned kind)
{
    bool has = false;
    for (size_t i = 0; i < dp_kind_table[kind].n_types; i++)
        has |= dp_kind_table[kind].types[i].nature == DP_KIND_LEVEL;
    return has;
}

static const struct dp_kind_type *find_type(unsigned kind, const char *name)
{
    for (size_t i = 0; i < dp_kind_table[kind].n_types; i++)
        if (!strcmp(dp_kind_table[kind].types[i].name, name))
            return &dp_kind_table[kind].types[i];
    return NULL;
}

bool dp_kind_has_type(unsigned kind, const char *type)
{
    return find_type(kind, type) != NULL;
}

bool dp_kind_type_is_on_demand(const char *name)
{
    bool is = false;
    for (unsigned kind = 0; kind < DP_KINDS && !is; kind++) {
        const struct dp_kind_type *type = find_type(kind, name);
        is = type && type - dp_kind_table[kind].types >= dp_kind_table[kind].n_values;
    }
    return is;
}

unsigned dp_kind_by_type(const char *type)
{
    unsigned found = DP_KINDS;
    for (unsigned kind = 0; kind < DP_KIND_DELTAS; kind++)
        if (dp_kind_has_type(kind, type) && (found == DP_KINDS || dp_kind_table[kind].rank < dp_kind_table[found].rank))
            found = kind;
    return found;
}

/* The sample type in the first kind that has it; NULL: none. */
static const struct dp_kind_type *find_type_in_any(const char *name)
{
    const struct dp_kind_type *type = NULL;
    for (unsigned kind = 0; kind < DP_KINDS && !type; kind++)
        type = find_type(kind, name);
    return type;
}

bool dp_kind_type_is_level(const char *name)
{
    const struct dp_kind_type *type = find_type_in_any(name);
    return type ? type->nature == DP_KIND_LEVEL : !strncmp(name, "inuse_", 6);
}

bool dp_kind_type_is_flow(const char *name)
{
    const struct dp_kind_type *type = find_type_in_any(name);
    return type ? type->nature == DP_KIND_FLOW : !strncmp(name, "alloc_", 6);
}

const struct dp_kind_endpoint *dp_kind_endpoint_at(size_t i, unsigned *kind)
{
    for (int pass = 0; pass < 2; pass++)
        for (*kind = 0; *kind < DP_KINDS; ++*kind)
            for (size_t k = 0; k < DP_KIND_ENDPOINTS_MAX && dp_kind_table[*kind].endpoints[k].name; k++)
                if (dp_kind_table[*kind].endpoints[k].is_delta == !pass && !i--)
                    return &dp_kind_table[*kind].endpoints[k];
    return NULL;
}

const struct dp_kind_endpoint *dp_kind_endpoint_named(const char *name, size_t n_bytes, unsigned *kind)
{
    const struct dp_kind_endpoint *endpoint;
    for (size_t i = 0; (endpoint = dp_kind_endpoint_at(i, kind)); i++)
        if (is_text(endpoint->name, name, n_bytes))
            break;
    return endpoint;
}
