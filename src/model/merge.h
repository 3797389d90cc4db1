/* SPDX-License-Identifier: MIT */
/*
 * model/merge.h - merges many profiles into one. Flows (alloc_*, contentions, delay, cpu, ...) are summed. In-use
 * values (inuse_*) are a state: only the newest profile of each process counts.
 *
 * The comment #ended says that a profile is the last one of its process. #exit says that the process began to end when
 * the profile was made; it is the last one if no other follows. Only processes that have not ended contribute
 * in-use values, each by its newest profile. If all processes have ended, each contributes the one with #exit, or the
 * profile before its last one, or the last one if there is no other. Samples with the label fork=inherited are memory
 * that a forked process shares with its parent: a sum over more than one process leaves them out. Pairs of waiters and
 * holders are summed like flows.
 */
#pragma once

#include "model/pairs.h"
#include "model/write.h"
#include "profile/comments.h"

#include <stdbool.h>

#define DP_MERGE_FORK      "fork" /* the label */
#define DP_MERGE_INHERITED "inherited"

/* Which profile of its process this is; decides whether its in-use values may count. */
enum dp_merge_state {
    DP_MERGE_NEWEST, /* the newest */
    DP_MERGE_BEFORE, /* the one before the newest */
    DP_MERGE_OLDER,  /* an older one: no, unless it has #exit */
    DP_MERGE_LOOSE,  /* process not known: ordered by main program and time_nanos */
};

struct dp_merge_place {
    enum dp_merge_state state;
    uint32_t process; /* the same number for profiles of one process; not used if LOOSE */
};

struct dp_merge_state_value {
    uint32_t row, type;
    int64_t value;
};

/* The in-use values of one profile. */
struct dp_merge_states {
    bool is_there, ended; /* ended: with it, or after it without another profile */
    bool is_exit;         /* it was made when the process began to end */
    bool after_end;       /* the process's destructors ran before it */
    int64_t time_ns;
    DP_VEC(struct dp_merge_state_value) values;
};

struct dp_merge_process {
    bool loose;
    uint32_t id; /* the caller's number; if LOOSE, a string: the object of the main program */
    struct dp_merge_states newest;
    struct dp_merge_states before; /* with #exit, or before the newest */
};

/* Zero is an empty one. */
struct dp_merge {
    struct dp_model model;
    struct dp_model_header header;
    DP_VEC(int64_t) values; /* model.rows.n times model.types.n; complete after choose */
    DP_VEC(struct dp_merge_process) processes;
    struct dp_model_pairs pairs;
    size_t n_profiles;
    bool with_inherited; /* set by the caller: inherited memory counts for each process that has it */

    /* After choose. */
    size_t n_counted; /* processes whose in-use values were summed */
    size_t n_ended;   /* processes that have ended */
    size_t n_without; /* processes whose inherited memory was left out */
};

/* Adds; a sum that overflows stays at the largest number. */
static inline void dp_merge_sum(int64_t *sum, int64_t value)
{
    if (__builtin_add_overflow(*sum, value, sum))
        *sum = value < 0 ? INT64_MIN : INT64_MAX;
}

bool dp_merge_is_state(const struct dp_merge *, size_t type);
/* Whether a profile has this comment: DP_COMMENT_ENDED, for example. */
bool dp_merge_says(const struct dp_decode *, const char *comment);
/* Whether a row of the model is memory that a forked process shares with its parent. */
bool dp_merge_is_inherited(const struct dp_model *, uint32_t row);
/* Returns 0, -EBADMSG with *error filled in, or -ENOMEM; after an error only fini may follow. */
int dp_merge_add(struct dp_merge *, const struct dp_decode *, struct dp_merge_place, struct dp_decode_error *);
/* Once, after the last add: chooses the in-use values that count. 0 or -ENOMEM. */
int dp_merge_choose(struct dp_merge *);
/* Writes the merged profile, not gzipped; rows whose values are all 0 are left out. After choose. */
int dp_merge_write(struct dp_merge *, dp_pprof_write_fn fn, void *ctx);
void dp_merge_fini(struct dp_merge *);
