/* SPDX-License-Identifier: MIT */
/*
 * pprof/merge.h - many profiles as one: flows (alloc_*, contentions, delay, cpu, ...) are summed; what is in use
 * (inuse_*) is a state, of which only the newest of each process counts.
 *
 * A profile says with the comment #ended that its process ended with it. In-use values are those of processes that have
 * not ended: of each its newest profile. Where all processes have ended, each counts as it was in the last profile
 * before the one that says so, or in that one if there is no other. Samples with the label fork=inherited are memory
 * that a forked process shares with its parent: they are left out of a sum over more than one process.
 */
#pragma once

#include "pprof/model_write.h"

#include <stdbool.h>

#define DP_MERGE_ENDED     "#ended"      /* the comment */
#define DP_MERGE_ALLOCATED "#allocated " /* the comment, and bytes: what the process allocated in all */
#define DP_MERGE_FORK      "fork"        /* the label */
#define DP_MERGE_INHERITED "inherited"

/* Whether a profile's in-use values may count. */
enum dp_merge_state {
    DP_MERGE_NEWEST, /* the newest of its process */
    DP_MERGE_BEFORE, /* the one before that */
    DP_MERGE_OLDER,  /* no */
    DP_MERGE_LOOSE,  /* its process is not known: by main program and time_nanos */
};

struct dp_merge_place {
    enum dp_merge_state state;
    uint32_t process; /* the same for profiles of one process; of no meaning if LOOSE */
};

struct dp_merge_state_value {
    uint32_t row, type;
    int64_t value;
};

/* What one profile says is in use. */
struct dp_merge_states {
    bool is_there, ended;
    int64_t time_ns;
    DP_VEC(struct dp_merge_state_value) values;
};

struct dp_merge_process {
    bool loose;
    uint32_t id; /* the caller's number, or a string: the object of the main program */
    struct dp_merge_states newest, before;
};

/* Zero is an empty one. */
struct dp_merge {
    struct dp_model model;
    struct dp_write_header header;
    DP_VEC(int64_t) values; /* model.rows.n times model.types.n; whole after settle */
    DP_VEC(struct dp_merge_process) processes;
    size_t n_profiles;
    bool with_inherited; /* set by the caller: inherited memory counts for each process that has it */

    /* After settle. */
    size_t n_counted; /* processes whose in-use values were summed */
    size_t n_ended;   /* processes that have ended */
    size_t n_without; /* processes whose inherited memory was left out */
};

/* A sum that overflows stays at the largest number. */
static inline void dp_merge_sum(int64_t *sum, int64_t value)
{
    if (__builtin_add_overflow(*sum, value, sum))
        *sum = value < 0 ? INT64_MIN : INT64_MAX;
}

bool dp_merge_is_state(const struct dp_merge *, size_t type);
/* Whether a profile says that its process ended with it. */
bool dp_merge_says_ended(const struct dp_decode *);
/* Whether a row of the model is memory that a forked process has from its parent. */
bool dp_merge_is_inherited(const struct dp_model *, uint32_t row);
/* 0, -EBADMSG with the line filled in, or -ENOMEM; after an error the merge is good for fini only. */
int dp_merge_add(struct dp_merge *, const struct dp_decode *, struct dp_merge_place, struct dp_input_error *);
/* Once, after the last add: chooses the in-use values that count. 0 or -ENOMEM. */
int dp_merge_choose(struct dp_merge *);
/* The merged profile, not gzipped; rows whose values are all 0 are left out. After settle. */
int dp_merge_write(struct dp_merge *, dp_write_fn fn, void *ctx);
void dp_merge_fini(struct dp_merge *);
