/* SPDX-License-Identifier: MIT */
/* pprof/strings.h - a set of byte strings numbered in the order they came; number 0 is "". Memory from dp_mem. */
#pragma once

#include "base/mem.h"

#include <stddef.h>
#include <stdint.h>

struct dp_string {
    uint32_t offset, n_bytes, hash;
};

/* Zero is an empty set, in which "" has not been added yet. */
struct dp_strings {
    DP_VEC(struct dp_string) all;
    DP_VEC(char) bytes; /* each string is followed by a NUL */
    uint32_t *slots;    /* number + 1; 0: free */
    size_t n_slots;
};

#define DP_STRINGS_NONE UINT32_MAX

/* The number of the string, the same for the same bytes; DP_STRINGS_NONE: no memory, or over 4 GiB. */
uint32_t dp_strings_add(struct dp_strings *set, const char *bytes, size_t n_bytes);
void dp_strings_fini(struct dp_strings *set);

/* Ends in a NUL that is not counted; valid until the next add. */
static inline const char *dp_strings_at(const struct dp_strings *set, uint32_t number)
{
    return set->bytes.at + set->all.at[number].offset;
}

static inline size_t dp_strings_size(const struct dp_strings *set, uint32_t number)
{
    return set->all.at[number].n_bytes;
}
