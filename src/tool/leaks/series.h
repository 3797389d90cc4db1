/* SPDX-License-Identifier: MIT */
/* tool/leaks/series.h - the in-use values of each stack at each tick, and its allocations in between, by process. */
#pragma once

#include "tool/query/stacks.h"

#define DP_QUERY_NO_OWN UINT32_MAX
enum { DP_QUERY_POINTS = 64 }; /* of a curve, at most: ticks with little work are joined where there are more */

struct dp_leaks_process {
    char name[64];   /* PROGRAM, and the number of the process: "redis-server 4711" */
    size_t n_points; /* ticks, or groups of them, without the one at the end of the process */
    int64_t start_ns, times_ns[DP_QUERY_POINTS];
    double work[DP_QUERY_POINTS];   /* sampled blocks that all stacks allocated since the point before */
    double cpu_ns[DP_QUERY_POINTS]; /* CPU time since the point before, from the cpu profiles beside; 0: none */
    size_t n_ticks;                 /* ticks in these points */
    size_t first_curve;             /* of its curves, which stand beside each other */
    bool ended;                     /* there is a file that was written at its end */
    bool at_exit;                   /* one of them before its destructors */
    bool was_killed;                /* by a signal: that file is a tick as others are */
    int64_t life_ns;                /* until that file; 0: there is none */
    uint32_t n_after;               /* files after that one */
    int64_t rate;                   /* mean bytes between samples */
};

/* A stack in a process. Samples: the number of sampled blocks in a value, which determines its variance. */
struct dp_leaks_curve {
    uint32_t stack, process; /* of stacks, of processes */
    uint32_t row;            /* a row of the model that has this stack, the largest */
    int64_t row_value;
    size_t n_own; /* frames of the row's stack before the stack begins; DP_QUERY_NO_OWN: none is the user's own code */
    double bytes[DP_QUERY_POINTS], samples[DP_QUERY_POINTS];                       /* in use */
    double allocated_samples[DP_QUERY_POINTS], allocated_objects[DP_QUERY_POINTS]; /* since the point before */
    double end_bytes;                                                              /* in use when the end began */
};

/* Zero is an empty one, with view and from_own set. */
struct dp_leaks_series {
    struct dp_query *view; /* its options; its merge.model becomes that of all files */
    bool from_own;         /* stacks begin at the first frame of the user's own code */

    bool has_inuse; /* the files have inuse_space */
    struct dp_query_stacks stacks;
    DP_VEC(struct dp_leaks_process) processes;
    DP_VEC(struct dp_leaks_curve) curves;
    DP_VEC(uint32_t) curve_of; /* by stack, of the process that is read: curve + 1 */
    DP_VEC(uint32_t) stack_of; /* by row: stack + 1, UINT32_MAX: not shown, 0: not known yet */
    DP_VEC(uint32_t) own_of;   /* by row: n_own of a curve */
};

/* Reads the files of view->paths, which must be heap profiles. 0, or DP_EXIT_FAILED after one line. */
int dp_leaks_series_read(struct dp_leaks_series *);
/* Whether two stacks begin with the same function. */
bool dp_leaks_series_is_sister(const struct dp_leaks_series *, uint32_t, uint32_t);
void dp_leaks_series_fini(struct dp_leaks_series *);

/* The frame to name for a stack: the first one that is the user's own code, else the first function of a runtime's
 * library, else the leaf. */
size_t dp_leaks_shown_frame(const struct dp_query *v);
