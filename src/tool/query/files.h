/* SPDX-License-Identifier: MIT */
/*
 * tool/query/files.h - reads profiles from files, for all verbs. Errors are printed on stderr, in one line with the
 * file's name, and returned as an exit status.
 */
#pragma once

#include "tool/model/merge.h"
#include "pprof/decode.h"

#include <stdbool.h>
#include <sys/types.h>

/*
 * Begins a verb that reads profiles: limits its memory to four times the limit of a file, and to three quarters of the
 * memory of the machine or of its control groups. A file of very small records is twenty times as large in memory. An
 * error line and status 1 are better than a machine that swaps.
 */
void dp_query_files_init(void);

/* Prints which option getopt_long (opterr 0, options that begin with ":") did not accept. Returns DP_EXIT_USAGE. */
int dp_query_bad_option(char **argv, int option);

/* "1g" and the like, up to DP_DECODE_LIMIT_MAX. 0, or DP_EXIT_USAGE. */
int dp_query_limit(const char *verb, const char *text, size_t *limit_bytes);

/* A status: the file cannot be opened or is no profile. Nothing was printed. */
#define DP_QUERY_BROKEN 3

/* One profile in memory; zero is none, it can be read into again. */
struct dp_query_source {
    struct dp_decode_input input;
    struct dp_decode decode;
    bool is_quiet; /* the caller's: broken files give DP_QUERY_BROKEN */
};

/* file "-": standard input. 0, DP_EXIT_FAILED, or DP_QUERY_BROKEN. */
int dp_query_read_file(const char *verb, const char *file, size_t limit_bytes, struct dp_query_source *);
void dp_query_source_fini(struct dp_query_source *);
/* Says what is wrong with a file, result being what a reader gave; DP_EXIT_FAILED. */
int dp_query_refuse(const char *verb, const char *file, int result, const struct dp_decode_error *);

/*
 * Leaves out the files that cannot be read: each is named in one line, and the command exits with DP_EXIT_FAILED
 * (tool/cli/main.c). A file that a directory had is not named if it was deleted since: a process keeps only its newest
 * ones. 0, or DP_EXIT_FAILED: none is left, or there is no memory. If paths->n changed, files may be left out again.
 */
struct dp_query_paths;
/* Whether files may be left out: there are several, and none is standard input, which cannot be read again. */
bool dp_query_may_sift(const struct dp_query_paths *);
int dp_query_skip_broken(struct dp_query_paths *, const char *verb, size_t limit_bytes);
/* Counts a file that is left out. False: it was counted, and named, before. */
bool dp_query_leave_out(const char *file);
size_t dp_query_n_left_out(void);
/* The exit status of a command that ended with this one: DP_EXIT_FAILED instead of 0 if files were left out. */
int dp_query_end_command(int status);
/* Prints one line on stderr if more files are left out than n_before. */
void dp_query_say_left_out(const char *verb, size_t n_before);

/* The permissions that all files have which were read so far: what is made of them allows no more. */
mode_t dp_query_read_modes(void);

/* The name of a file in messages. */
const char *dp_query_file_name(const char *file);

/* The parts of a file name PROGRAM.PID.SEQ.KIND.pb.gz. */
struct dp_query_file {
    const char *file;    /* as it was given */
    const char *program; /* in file */
    size_t n_program;
    size_t n_process; /* bytes of file up to the end of PID, with the directory */
    const char *kind; /* in file: KIND and the rest of the name */
    size_t n_kind;
    unsigned kind_id; /* enum dp_kind_id; DP_KINDS: no kind of this version */
    unsigned long long seq;
    uint64_t stamp;     /* identifies the process that wrote it; 0: not known; set by sort */
    uint64_t pid_stamp; /* that stamp if another process had the same PID, else 0; set by sort */
    size_t position;    /* set by sort */
};

/* False: the file has another form of name. */
bool dp_query_file_parse(const char *file, struct dp_query_file *);
/* Whether two files are of one process and one kind. */
bool dp_query_file_is_same(const struct dp_query_file *, const struct dp_query_file *);
/*
 * Takes apart the names of those files that have such a name, into names, which has room for n. The files of a process
 * and kind stand beside each other, the newest first; position is the index in files. Their number.
 */
size_t dp_query_files_sort(char **files, size_t n, struct dp_query_file *names);

/* The process's number for users: "PID", or "PID/XXXX" with digits of the stamp if another process had that PID. */
enum { DP_QUERY_PID_BYTES = 48 };
void dp_query_file_print_pid(const struct dp_query_file *, char to[DP_QUERY_PID_BYTES]);

/* PROGRAM of a file named PROGRAM.PID.SEQ.KIND.pb.gz, in its name; *n_bytes 0: named otherwise. */
const char *dp_query_file_program(const char *file, size_t *n_bytes);
