/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/name_set.h - keeps each string once, for ever, at an address that does not change. So that a profile
 * need not read a string to know it, its length and hash are kept before it.
 */
#pragma once

#include "base/mem.h"

struct dp_symbols_name {
    uint32_t n_bytes;
    uint32_t hash; /* for dp_strings_add_hashed */
    bool is_utf8;
    char text[];
};

/* Zero is an empty set. */
struct dp_symbols_names {
    char *chunk; /* the one being filled */
    size_t used, size;
    struct dp_symbols_name **slots; /* open addressing; a power of two */
    size_t n_slots, n;
};

/* Returns the kept copy of text[0, n_bytes), with a NUL; NULL: no memory. */
const char *dp_symbols_names_keep(struct dp_symbols_names *set, const char *text, size_t n_bytes);

/* What is known of a kept copy. */
static inline const struct dp_symbols_name *dp_symbols_name_of(const char *kept)
{
    return (const struct dp_symbols_name *)(kept - offsetof(struct dp_symbols_name, text));
}
