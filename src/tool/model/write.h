/* SPDX-License-Identifier: MIT */
/*
 * tool/model/write.h - writes rows of a model as a profile: only entries that the rows refer to, numbered from 1, and
 * always the main program's mapping.
 */
#pragma once

#include "tool/model/model.h"
#include "pprof/encode.h"

/* The header of a profile; strings are the model's. Zero is an empty one. */
struct dp_model_header {
    struct dp_model_type period_type;
    bool has_period_type;
    int64_t period, time_ns, duration_ns;
    uint32_t default_type, drop_frames, keep_frames, doc_url;
    DP_VEC(uint32_t) comments;
    DP_VEC(uint8_t) has_comment; /* by string; used while profiles are joined */
    DP_VEC(uint8_t) unknown;
};

/* Fills the header from the profile that was added to the model last. 0 or -ENOMEM. */
int dp_model_header_fill(struct dp_model_header *, const struct dp_model *, const struct dp_decode *);
/*
 * Joins headers as google/pprof's Merge does: the earliest time, the sum of durations, the longest period, each comment
 * once; all other fields from the first profile.
 */
int dp_model_header_join(struct dp_model_header *, const struct dp_model *, const struct dp_decode *);
void dp_model_header_fini(struct dp_model_header *);

struct dp_model_write {
    struct dp_model *model;
    struct dp_encode *encode;
    DP_VEC(uint64_t) locations; /* id by the model's number; 0: not written */
    DP_VEC(uint64_t) functions; /* likewise */
    DP_VEC(uint32_t) mappings;  /* likewise */
    DP_VEC(uint32_t) mapped;    /* the model's number by id - 1 */
    DP_VEC(uint32_t) strings;   /* index + 1 by the model's number; 0: not written */
    DP_VEC(uint64_t) stack;
    DP_VEC(struct dp_encode_line) lines;
    DP_VEC(struct dp_encode_label) labels;
};

/* Returns 0 or a negative errno; errors of fn are returned by finish. The model must not change until then. */
int dp_model_write_begin(struct dp_model_write *, struct dp_model *, const struct dp_model_header *,
                         dp_pprof_write_fn fn, void *ctx);
/* The index in the output of one of the model's strings. */
int64_t dp_model_write_string(struct dp_model_write *, uint32_t string);
/* The id of a location of the model, which is written when it is first asked for. 0: no memory. */
uint64_t dp_model_write_location(struct dp_model_write *, uint32_t location);
int dp_model_write_row(struct dp_model_write *, uint32_t row, const int64_t *values);
int dp_model_write_finish(struct dp_model_write *);
void dp_model_write_fini(struct dp_model_write *);
