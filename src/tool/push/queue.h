/* SPDX-License-Identifier: MIT */
/*
 * tool/push/queue.h - one watched directory: the profiles in it that were not settled yet, in the order in which they
 * were made, and the journal with those that were settled.
 */
#pragma once

#include "tool/push/journal.h"
#include "tool/push/target.h"

#include <sys/stat.h>

/* A file named PROGRAM.PID.SEQ.KIND.pb.gz. */
struct dp_push_file {
    char *name;
    ino_t inode;
    int64_t mtime_ns;
    off_t n_bytes;
    uint64_t stamp;   /* identifies its process; of a file without one, its time */
    size_t n_program; /* bytes of the name up to the end of PROGRAM */
    size_t n_process; /* up to the end of PID */
    unsigned long long seq;
    unsigned kind; /* enum dp_kind_id */
    bool is_settled;
    bool is_aside; /* in a unit that the journal has set aside */
};

struct dp_push_queue {
    const char *path; /* of the directory */
    int dir_fd;
    bool takes_events; /* whether the receiver takes files of kind events; if not, they are settled */
    bool only_reads;   /* scans note nothing in the journal */
    struct dp_push_journal journal;
    DP_VEC(struct dp_push_file) files; /* by name */
    int64_t failing_ns;                /* since when the receiver answers 5xx to the unit under way; 0: it does not */
    size_t n_pending;
    size_t n_young;     /* files that changed a moment ago and have no stamp yet: a later scan takes them */
    size_t n_forbidden; /* profiles that this process may not read */
    size_t n_failed;    /* profiles that could not be read now: a later scan may read them */
    int failure;        /* of one of these; a negative errno */
};

/* Opens the directory and its journal for the receiver. 0, or a negative errno; -EWOULDBLOCK: another pusher has it. */
int dp_push_queue_open(struct dp_push_queue *, const char *path, const struct dp_push_target *);
void dp_push_queue_close(struct dp_push_queue *);

/* Whether the path still leads to the directory that was opened. */
bool dp_push_queue_is_current(const struct dp_push_queue *);

/*
 * Whether a file changed so recently, by the kernel's clock, that it may be one that is being copied. The modification
 * time would not do: a program may set it to any time.
 */
bool dp_push_queue_is_young(const struct stat *);

/* Reads the directory again. 0 or a negative errno. */
int dp_push_queue_scan(struct dp_push_queue *);

/* The pending file that was made first, of those that are not set aside; NULL: none. */
const struct dp_push_file *dp_push_queue_first(const struct dp_push_queue *);

/*
 * The files that follow `first` among those of its process and kind, with it, into files; at most n_most. The first
 * one alone, unless hours of files are waiting. Returns their number.
 */
size_t dp_push_queue_unit(const struct dp_push_queue *, const struct dp_push_file *first,
                          const struct dp_push_file **files, size_t n_most);

/* The file with that key of the journal; NULL: it does not exist. */
const struct dp_push_file *dp_push_queue_find(const struct dp_push_queue *, const char *key);

/* Whether the file of that key, which a scan has found, still exists. */
bool dp_push_queue_has(const struct dp_push_queue *, const char *key);

/* To be called before the unit under way is settled in the journal, or set aside. */
void dp_push_queue_settled(struct dp_push_queue *);
void dp_push_queue_aside(struct dp_push_queue *);
/* To be called when the file of that key was settled alone. */
void dp_push_queue_settled_key(struct dp_push_queue *, const char *key);
