/* SPDX-License-Identifier: MIT */
/* tool/push/target.h - the receiver that a URL like pyroscope+https://host:4040 names: its protocol and its HTTP
 * address. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dp_push_protocol { DP_PUSH_PYROSCOPE, DP_PUSH_PARCA, DP_PUSH_OTLP, DP_PUSH_PPROF };

/* The limits of one profile, by the receiver's defaults. */
struct dp_push_limits {
    size_t n_rows;     /* samples of a profile; 0: no limit */
    size_t n_bytes;    /* of a profile before gzip; 0: no limit */
    size_t n_files;    /* files that may become one profile */
    int64_t oldest_ns; /* how long ago a window may begin; 0: no limit */
    int64_t newest_ns; /* how far ahead; 0: no limit */
};

struct dp_push_target {
    enum dp_push_protocol protocol;
    struct dp_push_limits limits;
    bool takes_events;  /* files of kind events: samples with times */
    char address[1024]; /* http://HOST:PORT/PATH of the request */
};

/* Returns 0, or -EINVAL with the reason in why. */
int dp_push_target_parse(struct dp_push_target *, const char *url, char *why, size_t n_why);
/* Whether a receiver with that address takes files of kind events. */
bool dp_push_target_takes_events(const char *address);
