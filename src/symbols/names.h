/* SPDX-License-Identifier: MIT */
/*
 * symbols/names.h - strings that are kept for ever, each once, at addresses that do not change.
 */
#pragma once

#include "base/mem.h"

/* Zero is an empty set. */
struct dp_names {
    char *chunk; /* the one being filled */
    size_t used, size;
    const char **slots; /* open addressing; a power of two */
    size_t n_slots, n;
};

/* The kept copy of text[0, n_bytes), with a NUL; NULL: no memory. */
const char *dp_names_keep(struct dp_names *set, const char *text, size_t n_bytes);
