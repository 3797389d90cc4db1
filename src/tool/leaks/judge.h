/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/judge.h - judges whether programs leak, for every verb that says so: reads the heap profiles of successive
 * ticks, and gives a verdict, the stacks that leak, and what would settle it if the verdict is open.
 */
#pragma once

#include "tool/leaks/evidence.h"

enum dp_leaks_verdict {
    DP_LEAKS_CANNOT_TELL, /* too few ticks or samples, or growth that may or may not have ended */
    DP_LEAKS_NO_LEAK,
    DP_LEAKS_LEAK,
};

/* Confidence of what is reported, where the user names none: below it, every third stack that grows is no leak. */
#define DP_LEAKS_SURE 0.7

/* A stack, summed over processes. It begins at the first frame of the user's own code. */
struct dp_leaks_row {
    uint32_t stack, row; /* of series.stacks; of the model, one that has the stack: for dp_query_row */
    size_t n_own;        /* frames of that row before the stack begins; DP_QUERY_NO_OWN: none is the user's own code */
    double bytes, confidence;
    double bytes_per_hour; /* 0: not known, as there are too few ticks for a leak */
    double pace;           /* the same, from any number of ticks: which row comes first */
    int64_t since_ns;
    size_t n_processes;
    struct dp_leaks_evidence evidence; /* of the process that has most */
    uint32_t process;                  /* that one, of series.processes */
    double row_bytes;
};

struct dp_leaks_tally {
    double bytes;
    size_t n;
};

/* Zero, with the options set, is a judge that has not read anything. */
struct dp_leaks {
    /* Options. */
    struct dp_query *view; /* with its paths */
    double least;          /* confidence of the leaks to report, 0 to 1 */

    /* The verdict. */
    enum dp_leaks_verdict verdict;
    char needs[160];                      /* CANNOT_TELL: what was seen, and what would settle it; else empty */
    DP_VEC(struct dp_leaks_row) leaks;    /* the worst first; empty if the verdict is another one */
    DP_VEC(struct dp_leaks_row) suspects; /* that may leak: CANNOT_TELL is because of them; the likeliest first */

    /* What was looked at: of the process with most work. */
    size_t n_ticks;   /* in which it worked */
    double n_samples; /* blocks that were sampled, in all processes */
    double work_ns;

    double in_use, in_use_before;                    /* now or at the exit; at the last tick */
    struct dp_leaks_tally filled, steady, libraries; /* no leaks */
    struct dp_leaks_series series;
    DP_VEC(uint32_t) of_stack; /* leak + 1; suspect + 1 with the highest bit */
};

/*
 * Reads the profiles of view->paths, which are chosen already, and judges. 0, or DP_EXIT_FAILED after one line on
 * stderr.
 */
int dp_leaks_judge(struct dp_leaks *);
void dp_leaks_fini(struct dp_leaks *);

/*
 * Whether a cache that still fills looks like this stack: hardly any of its blocks were freed, in few ticks. Of such
 * stacks that were called leaks in recordings that were cut short, two in five were sound.
 */
bool dp_leaks_may_be_filling(const struct dp_leaks *, const struct dp_leaks_row *);

/* "leak", "no leak" or "cannot tell". */
const char *dp_leaks_verdict_text(enum dp_leaks_verdict);
