/* SPDX-License-Identifier: MIT */
/* tool/query/paths.h - finds the profiles that a command line names: files, directories with all their files, and
 * globs. */
#pragma once

#include <stddef.h>

/* Zero is an empty list. */
struct dp_query_paths {
    char **at; /* malloc'ed, each of them too */
    size_t n, cap;
    char **given; /* the arguments of the command line, the caller's */
    size_t n_given;
    char others[64]; /* kinds of profile that choose left out, for people: "block, mutex"; "" none */
};

/*
 * Adds what the paths of a command line name, each file once, up to the first path that fails: "-" and a file as they
 * are; of a directory, and of directories in it, the files named PROGRAM.PID.SEQ.KIND.pb.gz, or if there is none, all
 * *.pb.gz; of a glob, what it matches. 0, or DP_EXIT_FAILED after one line that says why.
 */
int dp_query_paths_add_all(struct dp_query_paths *, const char *verb, char **paths, size_t n);

/*
 * Leaves the files of one kind if there are several, by their names, or by their content if these do not say: of
 * `kind`; if that is NULL, of the kind that has sample type `type`; if that is NULL too, of heap, else block, else
 * mutex, else the first. 0, or DP_EXIT_FAILED after one line: there is no file of that kind.
 */
int dp_query_paths_choose(struct dp_query_paths *, const char *verb, const char *kind, const char *type);

void dp_query_paths_fini(struct dp_query_paths *);
