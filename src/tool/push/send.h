/* SPDX-License-Identifier: MIT */
/*
 * tool/push/send.h - sends one unit of a queue, which is one file or several joined ones: makes its parts, notes each
 * step in the journal, and acts on the answers.
 */
#pragma once

#include "tool/push/http.h"
#include "tool/push/push_options.h"

struct dp_push_sender {
    const struct dp_push_options *options;
    struct dp_push_http *http;
    struct dp_push_profile profile;
    struct dp_push_body body;
    unsigned n_failures;   /* in a row; the pause grows with it */
    unsigned n_shortages;  /* of memory, in a row */
    size_t n_single;       /* so many of the next units are single files, because joined ones could not be read */
    int64_t not_before_ns; /* no request before this time of CLOCK_MONOTONIC */
    int64_t end_ns;        /* when the caller will give up; 0: not known */
};

/* Most files of a unit. */
#define DP_PUSH_MOST_FILES 20

/*
 * Continues the unit under way, or begins the next one. Returns 1: something was settled; 0: nothing is pending, or
 * it must wait until not_before_ns; or a negative errno of the directory.
 */
int dp_push_send_next(struct dp_push_sender *, struct dp_push_queue *);
void dp_push_send_fini(struct dp_push_sender *);
