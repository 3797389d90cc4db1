/* SPDX-License-Identifier: MIT */
/*
 * host/report/totals.h - sums the records of a kind since start, without making a profile. One pass over the counters.
 * Context: outside hooks.
 */
#pragma once

#include "host/report/columns.h"
#include "host/table/labels.h"

#include <stddef.h>
#include <stdint.h>

struct dp_totals {
    size_t n_rows; /* records that a cumulative profile would show */
    union {        /* in the order of the kind's types; a kind of locks has the first two */
        int64_t values[DP_VALUES_MAX];
        struct {
            int64_t alloc_objects, alloc_bytes, inuse_objects, inuse_bytes;
        };
        struct {
            int64_t contentions, delay_ns;
        };
    };
    struct {
        int64_t contentions, delay_ns;
    } by_lock[DP_LABELS_LOCKS]; /* the same by enum deltaprof_lock_kind; 0: [overflow] */
};

void dp_totals_read(unsigned kind, struct dp_totals *);
