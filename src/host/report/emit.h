/* SPDX-License-Identifier: MIT */
/* host/report/emit.h - writes rows as the bytes of one profile. */
#pragma once

#include "host/resident/free_chunks.h"
#include "host/resident/idle.h"
#include "host/resident/resident.h"
#include "host/report/kind_source.h"
#include "host/report/write_buffers.h"

#define DP_EMIT_LABELS_MAX 32
#define DP_EMIT_STACK_MAX  (2 * (1024 + 1) + 1) /* DP_STACK_MAX and [truncated], twice in a chain */
#define DP_EMIT_FAR        16                   /* rows ahead: `ahead` prefetches the record */
#define DP_EMIT_NEAR       8                    /* rows ahead: the record is there, and it prefetches the stack */

/* The source of the rows: finds the stack and labels of a row's id. */
struct dp_emit_source {
    /* Fills refs (DP_EMIT_STACK_MAX), leaf first; returns their number. */
    size_t (*stack)(void *ctx, struct dp_locations *l, const struct dp_row *row, uint32_t *refs);
    /* Prefetches what `stack` reads, for the row that is `distance` rows ahead. */
    void (*ahead)(void *ctx, const struct dp_row *row, int distance);
    /* Fills labels (DP_EMIT_LABELS_MAX), whose texts go to l->encode; returns their number. */
    size_t (*labels)(void *ctx, struct dp_locations *l, const struct dp_row *row, struct dp_encode_label *labels);
    void *ctx;
    bool sums_in_0; /* row 0 is [overflow], and rows may be marked DP_ROW_SUMMED */
    /* Changes the values of a row (DP_VALUES_MAX) to those that are written. NULL: they are the same. */
    void (*scale)(void *ctx, int64_t *values);
};

struct dp_emission {
    unsigned kind; /* enum deltaprof_kind */
    struct dp_columns columns;
    const struct dp_kind_state *more; /* of the kind's source; NULL: a runtime's records */
    struct dp_location_settings locations;
    int64_t max_samples; /* 0: all */
    int64_t period;
    int64_t time_ns, duration_ns; /* duration 0: cumulative */
    int64_t covered_ns;           /* the true duration, if duration_ns is shorter; 0: it is not */
    const char *default_type;     /* NULL: the last */
    bool raw;                     /* not compressed */
    bool is_own;                  /* without rows of inherited memory */
    unsigned marks;               /* DP_WRITE_ENDED, _EXIT, _PEAK */
    char summary[256];            /* comment for people; "": none */
    bool has_stuck;
    char stuck[600]; /* if has_stuck: the worst wait under way, which began stuck_ns before the end of the window */
    int64_t stuck_ns;
    int64_t in_use_at_ns; /* of an earlier moment, whose levels the rows have; 0: of now */
    bool tells_allocated;
    int64_t allocated_bytes;     /* if tells_allocated: by the process since its start; counted, not sampled */
    struct dp_resident resident; /* zeros: not told */
    bool has_parts;
    struct dp_resident_parts parts; /* of the resident memory */
    bool has_free;
    struct dp_resident_free free; /* what the C heap's allocator holds free */
    int64_t unread_bytes;         /* of memory in use: whether it is zeros is not known */
    struct dp_resident_idle idle; /* zeros: not asked for */
    bool idle_unknown;            /* it was asked for */
    const char *waste_unknown;    /* why the profile does not have the types of waste, which were wanted; or NULL */
};

/*
 * Writes the rows in the write buffers as a profile, through fn. 0, fn's error, -ENOMEM, or -EAGAIN
 * (locations.no_wait).
 */
int dp_emit(const struct dp_emission *emission, struct dp_report_write_buffers *buffers,
            const struct dp_emit_source *source, dp_pprof_write_fn fn, void *ctx);
