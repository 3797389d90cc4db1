/* SPDX-License-Identifier: MIT */
/* tool/cli/view_sides.c - tells the files of OLD from those of NEW, for `deltaprof view --diff OLD NEW`. */
#include "tool/cli/view_sides.h"

#include "tool/cli/cli.h"
#include "tool/query/print.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int dp_cli_view_sides_find(struct dp_cli_view_sides *sides, char **paths, size_t n)
{
    if (n != 2 || !strcmp(paths[0], paths[1])) {
        dp_query_print_error("view", "--diff takes two different paths: deltaprof view --diff OLD NEW");
        return DP_EXIT_USAGE;
    }
    sides->old = paths[0];
    sides->new = paths[1];
    int status = dp_query_paths_add_all(&sides->files, "view", paths, 1);
    if (!status)
        qsort(sides->files.at, sides->files.n, sizeof *sides->files.at, by_name);
    return status;
}

bool dp_cli_view_is_old(const struct dp_cli_view_sides *sides, const char *file)
{
    return sides->old && bsearch(&file, sides->files.at, sides->files.n, sizeof *sides->files.at, by_name);
}

const char *dp_cli_view_side(const struct dp_cli_view_sides *sides, const char *file)
{
    return !sides->old ? "" : dp_cli_view_is_old(sides, file) ? sides->old : sides->new;
}

void dp_cli_view_sides_fini(struct dp_cli_view_sides *sides)
{
    dp_query_paths_fini(&sides->files);
}
