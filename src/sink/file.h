/* SPDX-License-Identifier: MIT */
/*
 * sink/file.h - profiles as files: OUT/PROGRAM.PID.SEQ.KIND.pb.gz, complete or not there.
 *
 * A tick: dp_file_write for each kind's bytes, then dp_file_keep (it has its final name) or dp_file_drop (it is gone),
 * then dp_files_end. The directory is opened, and a temporary file made, by the first byte: a kind with no row leaves
 * nothing. SEQ is common to the kinds of a tick and follows the highest there is for PROGRAM.PID. No file is ever
 * replaced. Context: above the waterline, one thread at a time; neither malloc nor locks, so exit paths may use it too.
 */
#pragma once

#include "base/config.h"
#include "base/process.h"
#include "pprof/stamp.h"

#include <stdint.h>
#include <sys/types.h>

struct dp_files {
    char dir[DP_CONFIG_TEXT + 256]; /* absolute, expanded */
    char program[DP_PROGRAM_TEXT];
    pid_t pid;
    int64_t keep;    /* ticks; 0 all */
    uint32_t seq;    /* of the last tick that left a file, or the highest found; 0: not looked for yet, or none */
    uint32_t next;   /* this tick's; 0: the directory is not open */
    unsigned n_kept; /* files of this tick */
    int dir_fd;
    struct dp_stamp stamp; /* of this process; made with the first file */
    uint32_t first;        /* the first SEQ that this process wrote; 0: none */
    uint32_t n_ticks;      /* that left a file */
    bool forked;           /* set by the caller after init: one of many, perhaps */
};

/* One kind's file of one tick. Zero it, then set the first two. */
struct dp_file {
    struct dp_files *files;
    const char *kind;
    bool open;
    int fd;
    char temporary[192];
};

/* The descriptor, moved above the host's numbers if the limit allows; a negative one is handed through. */
int dp_file_out_of_the_way(int fd);

/* Expands %e %p %h %% of out, an absolute path. -ENAMETOOLONG. */
int dp_files_init(struct dp_files *files, const char *out, const char *program, pid_t pid, int64_t keep);

/* Makes the last component of the directory, 0700, if it is missing. 0, or a negative errno. */
int dp_files_make_directory(const struct dp_files *files);

int dp_file_write(void *file, const void *bytes, size_t n_bytes); /* a dp_write_fn on a struct dp_file */
int dp_file_keep(struct dp_file *file);                           /* 0 too if nothing was written */
void dp_file_drop(struct dp_file *file);

/* Ends the tick: closes the directory and deletes the files of ticks beyond `keep`. Files kept in this tick. */
unsigned dp_files_end(struct dp_files *files);
