/* SPDX-License-Identifier: MIT */
/*
 * tool/rss/rss.h - divides the resident memory of a process into parts, for `deltaprof rss`: by its mappings
 * (running_process.c), and by its newest profile (profile_parts.c).
 */
#pragma once

#include "base/mem.h"
#include "base/vma.h"
#include "profile/comments.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define DP_RSS_NAME 160
#define DP_RSS_OUT  1024 /* as DP_CONFIG_TEXT */

struct dp_rss_part {
    char name[DP_RSS_NAME];
    int64_t bytes;
};

/* Zero is empty. */
struct dp_rss {
    DP_VEC(struct dp_rss_part) parts; /* the explained parts of the anonymous resident memory */
    int64_t anonymous_bytes;          /* RssAnon */
    int64_t file_bytes, shared_bytes; /* resident pages of files and of shared memory; -1: not known */
    int64_t swap_bytes;               /* -1: not known */
    int64_t error_bytes;              /* standard deviation of the sampled parts */
    int64_t time_ns;                  /* of the profile; 0: none */
    int64_t absent_bytes;             /* allocated, but never touched: not resident */
    int64_t grown_bytes;              /* of malloc, by tables: in use, less what the profile has; 0: not known */
    bool is_profiled;
    size_t n_profiles;   /* processes that are summed up, each by one profile */
    size_t n_unmeasured; /* processes of which no profile has the resident memory: they are not in the sum */
};

/* Adds bytes to the part of that name. False: out of memory. */
bool dp_rss_add(struct dp_rss *, const char *name, int64_t bytes);
int64_t dp_rss_explained(const struct dp_rss *);
void dp_rss_fini(struct dp_rss *);

/* ---- a running process ------------------------------------------------------------------------------------------ */

struct dp_rss_process {
    pid_t pid;
    DP_VEC(struct dp_vma) vmas;
    DP_VEC(char) names; /* of the mappings, one behind the other */
    size_t stack_bytes; /* of a thread, by default */
    bool is_cut;        /* the last two mappings are one of the kernel's */
    int64_t anonymous_bytes, resident_bytes, swap_bytes, shared_bytes;
    int64_t self_bytes;                         /* the profiler's, which no mapping counts then; 0: not known */
    char out[DP_RSS_OUT];                       /* where it writes profiles, as it tells; "": not known */
    char listen[DP_RSS_OUT], token[DP_RSS_OUT]; /* as it tells; "": none, or not known */
    int signal;                                 /* 0: none, or not known */
};

/* Opens a file of /proc/PID for reading; NULL: it cannot be read. */
FILE *dp_rss_process_open(pid_t pid, const char *file);
/* Reads /proc/PID/smaps. 0, or DP_EXIT_FAILED after one line, which names the verb. */
int dp_rss_process_read(struct dp_rss_process *, pid_t pid, const char *verb);
/* The anonymous bytes of a range: its present pages that are not a file's; -1: not known. */
int64_t dp_rss_count_pages(pid_t pid, uintptr_t start, uintptr_t end);
/* Fills out, listen, token, signal and self_bytes, if the process tells. */
void dp_rss_beacon_read(struct dp_rss_process *);
/* Fills rss by kinds of mapping. False: out of memory. */
bool dp_rss_process_parts(const struct dp_rss_process *, struct dp_rss *);
void dp_rss_process_fini(struct dp_rss_process *);

/* ---- a process and its children --------------------------------------------------------------------------------- */

struct dp_rss_member {
    pid_t pid;
    char name[32];
    int64_t anonymous_bytes, explained_bytes; /* set by the caller */
};

/* Zero is empty. */
struct dp_rss_family {
    DP_VEC(struct dp_rss_member) at; /* the process itself stands first */
};

/* Finds the process and, if wanted, its children and theirs. False: out of memory. */
bool dp_rss_family_find(struct dp_rss_family *, pid_t pid, bool with_children);
/* Adds the memory of one process; of pages that processes share, those of the process that has most. False: no memory.
 */
bool dp_rss_family_add(struct dp_rss *all, const struct dp_rss *);
void dp_rss_family_fini(struct dp_rss_family *);

/* ---- profiles --------------------------------------------------------------------------------------------------- */

/*
 * Adds the parts in the newest heap profile of each process among the paths. 0, or DP_EXIT_FAILED after one line.
 * Broken files among others are named and left out.
 */
int dp_rss_profile_read(struct dp_rss *, char **paths, size_t n);
/*
 * Looks where the process was told to write profiles, and copies the path of its newest heap profile, malloc'ed. NULL:
 * there is none. path: a file or directory to look in instead; NULL: not given. is_measured: prefers one that has the
 * resident memory.
 */
char *dp_rss_profile_find(const struct dp_rss_process *, const char *path, bool is_measured);
/* Reads the configuration with which the process was started. False: it cannot be read, or names no key. */
struct dp_config;
bool dp_rss_process_conf(pid_t pid, struct dp_config *conf);
/*
 * Sets then->grown_bytes: what malloc's memory in use has grown since the profile `then` was read from, and the time of
 * the comparison. path: NULL if it was read from none. now: a profile of this moment. 0, or DP_EXIT_FAILED after one
 * line.
 */
int dp_rss_profile_grow(struct dp_rss *then, const char *path, const char *now);
/*
 * Asks the process for a profile of now, and returns its path, malloc'ed. NULL: it cannot be asked, or does not
 * answer in time. known: the newest one that was found, or NULL. query: of the endpoint's URL, "?types=waste" for
 * example, or "". seconds: how long the process is to wait before it answers.
 */
char *dp_rss_profile_ask(const struct dp_rss_process *, const char *known, const char *path, const char *query,
                         long seconds);
/*
 * Divides the process's present resident memory by its profile: `malloc` and other anonymous memory are divided as they
 * were then. If malloc's memory in use has grown since, it has new pages, or ones that malloc held; memory that was
 * freed is held by malloc. Other memory added since stays unexplained; memory that has gone is subtracted from the part
 * that malloc held.
 */
bool dp_rss_combine(const struct dp_rss_process *now, struct dp_rss *then, struct dp_rss *rss);
