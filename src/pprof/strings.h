/* SPDX-License-Identifier: MIT */
/* pprof/strings.h - a set of byte strings, numbered in order of arrival; number 0 is "". Memory from dp_mem. */
#pragma once

#include "pprof/index.h"

/* Zero is an empty set, in which "" has not been added yet. */
struct dp_strings {
    struct dp_index index;
    DP_VEC(uint32_t) offsets;
    DP_VEC(char) bytes; /* each string is followed by a NUL */
};

#define DP_STRINGS_NONE DP_INDEX_NONE

/* Returns the number of the string, the same for the same bytes; DP_STRINGS_NONE: no memory, or over 4 GiB. */
uint32_t dp_strings_add(struct dp_strings *set, const char *bytes, size_t n_bytes);
/* The same for a caller that knows the hash already. */
uint32_t dp_strings_hash(const char *bytes, size_t n_bytes);
uint32_t dp_strings_add_hashed(struct dp_strings *set, const char *bytes, size_t n_bytes, uint32_t hash);
void dp_strings_fini(struct dp_strings *set);
void dp_strings_clear(struct dp_strings *set); /* makes it empty, keeps its memory */

static inline size_t dp_strings_bytes(const struct dp_strings *set) /* of memory */
{
    return dp_index_bytes(&set->index) + set->offsets.cap * sizeof *set->offsets.at + set->bytes.cap;
}

static inline size_t dp_strings_count(const struct dp_strings *set)
{
    return set->offsets.n;
}

/* The string and its length. A NUL follows it, not counted; valid until the next add. */
static inline const char *dp_strings_at(const struct dp_strings *set, uint32_t number)
{
    return set->bytes.at + set->offsets.at[number];
}

static inline size_t dp_strings_size(const struct dp_strings *set, uint32_t number)
{
    size_t end = number + 1 < set->offsets.n ? set->offsets.at[number + 1] : set->bytes.n;
    return end - set->offsets.at[number] - 1;
}
