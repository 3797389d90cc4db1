/* SPDX-License-Identifier: MIT */
/* tool/cli/view_sides.h - the two sides of `deltaprof view --diff OLD NEW`. */
#pragma once

#include "tool/query/paths.h"

#include <stdbool.h>

/* Zero: nothing is compared. */
struct dp_cli_view_sides {
    const char *old, *new;       /* arguments of the command line */
    struct dp_query_paths files; /* of old, sorted */
};

/* Finds the files of OLD. 0, or an exit status after one line on stderr. */
int dp_cli_view_sides_find(struct dp_cli_view_sides *, char **paths, size_t n);
bool dp_cli_view_is_old(const struct dp_cli_view_sides *, const char *file);
/* The argument that named the file; "": nothing is compared. */
const char *dp_cli_view_side(const struct dp_cli_view_sides *, const char *file);
void dp_cli_view_sides_fini(struct dp_cli_view_sides *);
