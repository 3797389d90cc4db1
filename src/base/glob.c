/* SPDX-License-Identifier: MIT */
/* base/glob.c - matches globs. On a mismatch the last `*` takes one byte more; globs need no other backtracking. */
#include "base/glob.h"

#include <stddef.h>
#include <string.h>

/* Matches one glob of n bytes against the whole name. */
static bool matches(const char *g, size_t n, const char *name)
{
    const char *end = g + n, *star = NULL, *from = NULL;
    while (*name) {
        if (g < end && *g == '*') {
            star = g++;
            from = name;
        } else if (g < end && (*g == '?' || *g == *name)) {
            g++;
            name++;
        } else if (star) {
            g = star + 1;
            name = ++from;
        } else {
            return false;
        }
    }
    while (g < end && *g == '*')
        g++;
    return g == end;
}

bool dp_glob_matches(const char *globs, const char *name)
{
    for (;;) {
        size_t n = strcspn(globs, "|");
        if (matches(globs, n, name))
            return true;
        if (!globs[n])
            return false;
        globs += n + 1;
    }
}
