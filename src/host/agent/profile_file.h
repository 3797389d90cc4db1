/* SPDX-License-Identifier: MIT */
/*
 * host/agent/profile_file.h - writes profiles as files OUT/PROGRAM.PID.SEQ.KIND.pb.gz; a file is complete or does not
 * exist.
 *
 * A tick calls, for each kind, dp_agent_file_write, then dp_agent_file_keep (gives the final name) or
 * dp_agent_file_drop (deletes it); then dp_agent_files_end once. The first byte opens the directory and makes a
 * temporary file: a kind without rows leaves no file. All kinds of a tick have the same SEQ, one above the highest for
 * PROGRAM.PID. No file is ever replaced. Context: outside hooks, one thread at a time; neither malloc nor locks,
 * so exit paths may use it too.
 */
#pragma once

#include "base/process.h"
#include "config/config.h"
#include "pprof/stamp.h"
#include "profile/file_name.h"
#include "profile/kinds.h"

#include <stdint.h>
#include <sys/types.h>

struct dp_agent_files {
    char dir[DP_CONFIG_TEXT + 256]; /* absolute, expanded */
    char program[DP_PROGRAM_TEXT];
    pid_t pid;
    int64_t keep;    /* ticks; 0 all */
    uint32_t seq;    /* of the last tick with a file, or the highest found; 0: not searched yet, or none */
    uint32_t next;   /* this tick's; 0: the directory is not open */
    unsigned n_kept; /* files of this tick */
    int dir_fd;
    struct dp_stamp stamp; /* of this process; made with the first file */
    uint32_t first;        /* the first SEQ that this process wrote; 0: none */
    uint32_t n_ticks;      /* ticks with a file */
    bool forked;           /* set by the caller after init: this may be one of many processes */
};

/* The file of one kind in one tick. Zero it, then set the first two fields. */
struct dp_agent_file {
    struct dp_agent_files *files;
    unsigned kind; /* enum dp_kind_id */
    bool open;
    int fd;
    char temporary[DP_PROFILE_NAME_MAX];
};

/* Expands %e %p %h %% of out, an absolute path. -ENAMETOOLONG. */
int dp_agent_files_init(struct dp_agent_files *files, const char *out, const char *program, pid_t pid, int64_t keep);

/* Makes the last component of the directory, 0700, if it is missing. 0, or a negative errno. */
int dp_agent_files_make_directory(const struct dp_agent_files *files);

/* Writes why the process has no sample into a file of the directory, for the commands that find no profile there. */
void dp_agent_files_note_no_sample(const struct dp_agent_files *files, const char *text);

int dp_agent_file_write(void *file, const void *bytes,
                        size_t n_bytes);            /* a dp_pprof_write_fn on a struct dp_agent_file */
int dp_agent_file_keep(struct dp_agent_file *file); /* 0 too if nothing was written */
void dp_agent_file_drop(struct dp_agent_file *file);

/*
 * Ends the tick: closes the directory and deletes the files of ticks beyond `keep`. Returns the number of files kept in
 * this tick.
 */
unsigned dp_agent_files_end(struct dp_agent_files *files);
