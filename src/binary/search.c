/* SPDX-License-Identifier: MIT */
/*
 * binary/search.c - finds a text in tens of megabytes. Two of its bytes that are seldom together are compared at 64
 * places at once; where both are found, the whole text is compared. The compiler turns the vectors into the
 * processor's.
 */
#include "binary/search.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { VECTOR = 16, BLOCK = 4 * VECTOR };

typedef uint8_t vector __attribute__((vector_size(VECTOR)));

static vector load(const uint8_t *bytes)
{
    vector v;
    memcpy(&v, bytes, sizeof v);
    return v;
}

/* Whether the two bytes stand at one of the first BLOCK places; reads one byte more. */
static bool block_has(const uint8_t *block, vector first, vector second)
{
    vector found = {0};
    uint64_t halves[2];
    for (size_t i = 0; i < BLOCK; i += VECTOR)
        found |= (vector)(load(block + i) == first) & (vector)(load(block + i + 1) == second);
    memcpy(halves, &found, sizeof halves);
    return (halves[0] | halves[1]) != 0;
}

const void *dp_binary_search(const void *bytes, size_t n_bytes, const void *text, size_t n_text, size_t rare)
{
    const uint8_t *all = bytes, *wanted = text;
    const vector first = (vector){0} + wanted[rare], second = (vector){0} + wanted[rare + 1];
    size_t n = n_bytes < n_text ? 0 : n_bytes - n_text + 1; /* places where the text can begin */
    for (size_t i = 0; i < n; i += BLOCK) {
        if (i + BLOCK <= n && !block_has(all + i + rare, first, second))
            continue;
        for (size_t at = i; at < n && at < i + BLOCK; at++)
            if (all[at + rare] == wanted[rare] && !memcmp(all + at, wanted, n_text))
                return all + at;
    }
    return NULL;
}
