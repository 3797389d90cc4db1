/* SPDX-License-Identifier: MIT */
/* tool/push/push_options.h - the command line of `deltaprof push`. */
#pragma once

#include "tool/push/fold.h"
#include "tool/push/tags.h"
#include "tool/push/target.h"

#include <sys/types.h>

struct dp_push_options {
    char **dirs; /* of argv */
    size_t n_dirs;
    struct dp_push_target target;
    struct dp_push_tags tags;
    struct dp_push_fold fold;
    const char *token_file, *header_file, *ca_file, *log_file; /* NULL: none */
    int64_t timeout_ns;                                        /* of one request */
    int64_t wait_ns; /* how long to try again at the end; INT64_MAX: for ever */
    bool is_status;  /* print the journals, and end */
    bool is_once;    /* end when all present files were sent */
    bool repeats;    /* the receiver recognizes duplicates */
    pid_t beside;    /* end after the processes of this `run`; 0: none */
};

/* Returns 0; 1: help was printed; 2: wrong usage, after one line. */
int dp_push_options_read(struct dp_push_options *, int argc, char **argv);
