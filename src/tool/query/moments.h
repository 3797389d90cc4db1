/* SPDX-License-Identifier: MIT */
/*
 * tool/query/moments.h - the states of all processes in a set of files: one for each heap profile, and those that a
 * merged profile has inside. at.h chooses which of them are shown.
 */
#pragma once

#include "tool/model/merge.h"

#include <stdbool.h>

struct dp_query;

struct dp_query_moment {
    struct dp_model_merge_part part;
    size_t path;     /* in the query's paths */
    int64_t time_ns; /* that of the moment, or of an earlier one of the process if a clock went back */
    bool is_read;    /* else only its process is known */
    bool is_last;    /* of its process */
};

/* Zero is an empty one. */
struct dp_query_moments {
    DP_VEC(struct dp_query_moment) at; /* by path, those of one file in the order of the file */
    DP_VEC(size_t) first;              /* by path: in at; and one more */
    DP_VEC(bool) is_newest;            /* by path: the newest file of its process, or one of unknown order */
    DP_VEC(uint64_t) pid_stamp;        /* by path: files.h */
    DP_VEC(uint32_t) order;            /* of at: by process, and in it by time */
    bool is_whole; /* the values of samples count as they are: one file, or profiles without in-use values */

    /* What was chosen. */
    int which; /* DP_QUERY_AT_ */
    int64_t time_ns;
    int64_t bytes;     /* in use then */
    int64_t end_bytes; /* the most that a process had in use at its end; known if which is DP_QUERY_AT_PEAK */
    size_t n_processes, n_ended, n_counted;
};

/*
 * Reads the moments of v->paths. If newest_first, older files are only read if all processes have ended. 0, or a status
 * after one line.
 */
int dp_query_moments_read(struct dp_query *v, bool newest_first);
void dp_query_moments_fini(struct dp_query_moments *);

/* Whether the process of its last moment is known to have ended. */
static inline bool dp_query_moment_ended(const struct dp_query_moment *m)
{
    return m->part.moment.ended || m->part.moment.is_exit || m->part.moment.is_gone;
}
