/* SPDX-License-Identifier: MIT */
/*
 * host/heap/age.h - splits what is in use by age, and computes how long blocks lived that were freed since a baseline.
 */
#pragma once

#include "host/heap/lifetime.h"
#include "host/report/delta.h"

enum { DP_HEAP_AGES = 6 };

/* The age of a block, 0 the youngest; the rows of an age have it, + 1, in their entry above DP_ROW_PART_SHIFT. */
unsigned dp_heap_age_of(int64_t ns);
/* <1s, <10s, <1m, <10m, <1h, older. Of a row: NULL, its values are of no age. */
const char *dp_heap_age_of_row(const struct dp_row *row);

/* A record's changes: the values of struct dp_heap_lifetime, in that order. */
enum { DP_AGE_VALUES = sizeof(struct dp_heap_lifetime) / sizeof(int64_t) };
struct dp_heap_age_life {
    uint32_t id;
    int64_t values[DP_AGE_VALUES];
};

struct dp_heap_age_lives {
    struct dp_heap_age_life *at; /* by id */
    size_t n, cap;
};

/* What a consumer delivered, by record id. */
struct dp_heap_age_baseline {
    struct dp_heap_age_life *at;
    size_t n, cap;
};

/*
 * Replaces the in-use values of rows, which come from a scan of the heap's records, by a row for each age; the sums
 * stay exactly the same. Ages are those at now_ns, of dp_clock_ns. lives gets the records' changes since base (NULL:
 * since start), each of which has a row of no age. -ENOMEM: both must be dropped.
 */
int dp_heap_age_split(struct dp_rows *rows, struct dp_heap_age_baseline *base, struct dp_heap_age_lives *lives,
                      int64_t now_ns);

/* Only the changes of lifetimes. */
int dp_heap_age_read_lives(struct dp_heap_age_baseline *base, struct dp_heap_age_lives *lives);

/* Moves base by the changes. */
void dp_heap_age_commit(struct dp_heap_age_baseline *base, const struct dp_heap_age_lives *lives);
