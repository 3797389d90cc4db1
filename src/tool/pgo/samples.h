/* SPDX-License-Identifier: MIT */
/* tool/pgo/samples.h - counts the CPU samples of one file, a program or a library, by address. */
#pragma once

#include "tool/query/lookup.h"
#include "tool/query/query.h"

struct dp_pgo_address {
    uint64_t address; /* by the file's program headers */
    int64_t n;        /* samples */
};

/* Zero is empty. */
struct dp_pgo_samples {
    uint32_t mapping; /* of the model: the file whose samples these are */
    int handle;       /* of names.session: that file */
    struct dp_query_naming_lookup names;
    DP_VEC(struct dp_pgo_address) at; /* by address, each once */
    int64_t n;                        /* their sum */
    int64_t n_all;                    /* samples of all files together */
};

/*
 * Counts the profiles that v has read, in the sample type that it shows. object: the file, which must have the
 * build-id that a profile has; NULL: the program's own. 0, or DP_EXIT_FAILED after one line.
 */
int dp_pgo_samples_read(struct dp_pgo_samples *, const struct dp_query *v, const char *object);

/* The sum of those in [start, end). */
int64_t dp_pgo_samples_sum(const struct dp_pgo_samples *, uint64_t start, uint64_t end);
void dp_pgo_samples_fini(struct dp_pgo_samples *);
