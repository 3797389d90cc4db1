/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/out.h - writes a file that appears complete or not at all: it is written under a temporary name in the same
 * directory, and removed if a signal ends the process. Errors are printed on stderr and returned as an exit status.
 */
#pragma once

#include "pprof/gzip.h"

struct dp_cli_out {
    const char *verb, *path; /* path NULL: standard output */
    char *target;            /* where path leads, if it is a link */
    char *temporary;         /* NULL: written straight */
    int fd;
    struct dp_gzip *gzip; /* NULL: written as it is */
};

/*
 * path NULL or "-" is standard output. A pipe or a device is written directly; a terminal is refused with
 * DP_EXIT_USAGE.
 */
int dp_cli_out_open(struct dp_cli_out *, const char *verb, const char *path);       /* of a profile: gzipped */
int dp_cli_out_open_plain(struct dp_cli_out *, const char *verb, const char *path); /* of anything else */
int dp_cli_out_write(void *out, const void *bytes, size_t n_bytes); /* a dp_pprof_write_fn for uncompressed bytes */
/* Gives the file its name if result is 0, else removes it. 0 or DP_EXIT_FAILED. */
int dp_cli_out_close(struct dp_cli_out *, int result);
