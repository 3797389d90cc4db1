/* SPDX-License-Identifier: MIT */
/*
 * cli/files.h - profiles in and out of files, for the verbs that read them. What goes wrong is said on stderr, in one
 * line with the file's name, and comes back as an exit status.
 */
#pragma once

#include "pprof/decode.h"
#include "pprof/gzip.h"
#include "pprof/merge.h"

/*
 * For the memory of these verbs: four times the limit of a file, and not more than three quarters of the machine's. A
 * file of very small things is twenty times as large in memory: better one line and status 1 than a machine that swaps.
 */
void dp_cli_files_init(void);

/* Says what getopt_long (opterr 0, options that begin with ":") did not understand; DP_CLI_USAGE. */
int dp_cli_bad_option(char **argv, int option);

/* "1g" and the like, up to DP_INPUT_LIMIT_MAX. 0, or DP_CLI_USAGE. */
int dp_cli_limit(const char *verb, const char *text, size_t *limit_bytes);

/* One profile in memory; zero is none, it can be read into again. */
struct dp_cli_source {
    struct dp_input input;
    struct dp_decode decode;
};

/* file "-": standard input. 0 or DP_CLI_FAILED. */
int dp_cli_read(const char *verb, const char *file, size_t limit_bytes, struct dp_cli_source *);
void dp_cli_source_fini(struct dp_cli_source *);
/* Says what is wrong with a file, result being what a reader gave; DP_CLI_FAILED. */
int dp_cli_refuse(const char *verb, const char *file, int result, const struct dp_input_error *);

/* What a file is called in messages. */
const char *dp_cli_file_name(const char *file);

/* Which files' in-use values count, by their names PROGRAM.PID.SEQ.KIND.pb.gz; states has n entries. -ENOMEM or 0. */
int dp_cli_states(char **files, size_t n, enum dp_merge_state *states);

/*
 * A file that appears whole or not at all: written under another name beside it, gzipped. path NULL is standard output,
 * refused with DP_CLI_USAGE when that is a terminal. A path that is there and no regular file is written straight.
 */
struct dp_cli_out {
    const char *verb, *path;
    char *temporary; /* NULL: written straight */
    int fd;
    struct dp_gzip *gzip;
};
int dp_cli_out_open(struct dp_cli_out *, const char *verb, const char *path);
int dp_cli_out_take(void *out, const void *bytes, size_t n_bytes); /* a dp_write_fn for uncompressed bytes */
/* Puts it in its place if result is 0, else removes it. 0 or DP_CLI_FAILED. */
int dp_cli_out_close(struct dp_cli_out *, int result);
