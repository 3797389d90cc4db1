/* SPDX-License-Identifier: MIT */
/* tool/summary/leaks.h - the leaks that `deltaprof leaks` found, and how they are printed. */
#pragma once

#include "tool/summary/own_functions.h"
#include "tool/leaks/judge.h"
#include "tool/query/stacks.h"

/* What the verb was asked, and found. */
struct dp_summary_leaks {
    struct dp_query view;
    struct dp_leaks judge;
    size_t n_wanted, n_frames;
};

/* What the judge says of the profiles in a directory, for verbs that tell it in one sentence. */
struct dp_summary_leaks_summary {
    enum dp_leaks_verdict verdict;
    size_t n_leaks;
    int64_t bytes;       /* of all leaks */
    char needs[160];     /* CANNOT_TELL: what would settle it */
    size_t n_ticks;      /* that were looked at */
    int64_t work_ns;     /* of them */
    bool may_be_filling; /* the worst one may be a cache */
    int64_t worst_bytes, worst_per_hour;
    char worst[DP_SUMMARY_PLACE_BYTES]; /* the function of the worst leak, and its FILE:LINE if known */
    uint32_t stack;                     /* the worst one's, of the caller's stacks */
};

/* Reads the profiles that the paths name, and judges. A status. r is to be ended also after an error. */
int dp_summary_leaks_find(struct dp_summary_leaks *r, char **paths, size_t n_paths);
void dp_summary_leaks_fini(struct dp_summary_leaks *r);

/* Reads the heap profiles that the paths name. 0, or DP_EXIT_FAILED after one line on stderr. */
int dp_summary_leaks_summarize(struct dp_summary_leaks_summary *, const char *verb, char **paths, size_t n_paths,
                               struct dp_query_stacks *);

/* The first n leaks, as people read them or as JSON. 0 or -ENOMEM. */
int dp_summary_leaks_print(struct dp_summary_leaks *, size_t n);
int dp_summary_leaks_json(struct dp_summary_leaks *, size_t n);
