/* SPDX-License-Identifier: MIT */
/*
 * tool/model/merge.h - merges many profiles into one. Flows (alloc_*, contentions, delay, cpu, ...) are summed. In-use
 * values (inuse_*) are a state: the caller chooses for each process the one profile whose values count
 * (tool/query/at.h).
 *
 * The comment #ended says that a profile is the last one of its process. #exit says that the process began to end when
 * the profile was made; it is the last one if no other follows. Samples with the label fork=inherited are memory
 * that a forked process shares with its parent: a sum over more than one process leaves them out.
 */
#pragma once

#include "tool/model/moments.h"
#include "tool/model/write.h"
#include "profile/comments.h"

#include <stdbool.h>

#define DP_MERGE_FORK      "fork" /* the label */
#define DP_MERGE_INHERITED "inherited"

/* One state of a profile that is added: a profile has one, a merged profile may have several (moments.h). */
struct dp_model_merge_part {
    struct dp_model_moment moment;
    bool counts; /* its in-use values are part of the sum */
};

/* A part whose values were kept. */
struct dp_model_merge_kept {
    struct dp_model_merge_part part;
    size_t first, n; /* in kept_values */
};

/* From when to when a profile that was added is. */
struct dp_model_merge_window {
    int64_t begin_ns, end_ns;
};

/* Zero is an empty one. */
struct dp_model_merge {
    struct dp_model model;
    struct dp_model_header header;
    DP_VEC(int64_t) values; /* model.rows.n times model.types.n; complete after choose */
    DP_VEC(struct dp_model_merge_kept) kept;
    DP_VEC(struct dp_model_moment_value) kept_values;
    DP_VEC(struct dp_model_merge_window) windows; /* of all profiles */
    size_t n_profiles;

    /* Set by the caller. */
    bool with_inherited; /* inherited memory counts for each process that has it */
    bool keeps_moments;  /* also those that do not count, to write them */
    bool goes_on;        /* before choose: not all processes have ended */

    /* After choose. */
    size_t n_counted; /* processes whose in-use values were summed */
    size_t n_without; /* processes whose inherited memory was left out */
};

/* Adds; a sum that overflows stays at the largest number. */
static inline void dp_model_merge_sum(int64_t *sum, int64_t value)
{
    if (__builtin_add_overflow(*sum, value, sum))
        *sum = value < 0 ? INT64_MIN : INT64_MAX;
}

/* The time in which at least one of the profiles was taken: less than the sum of durations if processes ran together.
 */
int64_t dp_model_merge_covered_ns(struct dp_model_merge *);
bool dp_model_merge_is_state(const struct dp_model_merge *, size_t type);
/* Whether a profile has this comment: DP_COMMENT_ENDED, for example. */
bool dp_model_merge_says(const struct dp_decode *, const char *comment);
/* Whether the profile is the last one of a process that a signal ended: no exit handler or destructor has run. */
bool dp_model_merge_was_killed(const struct dp_decode *);
/* The number behind `begin`, which is all of a comment of the profile; `none`: it has no such comment. */
int64_t dp_model_merge_number(const struct dp_decode *, const char *begin, int64_t none);
/* Whether a row of the model is memory that a forked process shares with its parent. */
bool dp_model_merge_is_inherited(const struct dp_model *, uint32_t row);
/*
 * parts: those of the profile, in the order of dp_model_moments_read; a profile without moments has one part. n_parts
 * 0: only flows count. Returns 0, -EBADMSG with *error filled in, or -ENOMEM; after an error only fini may follow.
 */
int dp_model_merge_add(struct dp_model_merge *, const struct dp_decode *, const struct dp_model_merge_part *parts,
                       size_t n_parts, struct dp_decode_error *);
/* The same with the in-use values that the samples have, which count. */
int dp_model_merge_add_whole(struct dp_model_merge *, const struct dp_decode *, struct dp_decode_error *);
/* Once, after the last add: sums the in-use values that count. 0 or -ENOMEM. */
int dp_model_merge_choose(struct dp_model_merge *);
/* Adds a comment to the merged profile, instead of those that begin so. 0 or -ENOMEM. */
int dp_model_merge_comment(struct dp_model_merge *, const char *beginning, const char *text);
/* Writes the merged profile, not gzipped; rows whose values are all 0 are left out. After choose. */
int dp_model_merge_write(struct dp_model_merge *, dp_pprof_write_fn fn, void *ctx);
void dp_model_merge_fini(struct dp_model_merge *);
