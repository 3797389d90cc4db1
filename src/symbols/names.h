/* SPDX-License-Identifier: MIT */
/* symbols/names.h - keeps each string once, for ever, at an address that does not change. */
#pragma once

#include "base/mem.h"

/* Zero is an empty set. */
struct dp_names {
    char *chunk; /* the one being filled */
    size_t used, size;
    const char **slots; /* open addressing; a power of two */
    size_t n_slots, n;
};

/* Returns the kept copy of text[0, n_bytes), with a NUL; NULL: no memory. */
const char *dp_names_keep(struct dp_names *set, const char *text, size_t n_bytes);
