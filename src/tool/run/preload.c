/* SPDX-License-Identifier: MIT */
/*
 * tool/run/preload.c - finds libdeltaprof_preload.so.0, by the name that a package of libraries has: the name without
 * the number is a link for the linker, which only a package for development has.
 *
 * ld.so splits LD_PRELOAD at blanks and colons and knows no quoting, so a path that has one is refused.
 */
#include "tool/run/preload.h"

#include "tool/query/installed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NAME "libdeltaprof_preload.so." DP_SOVERSION

int dp_run_preload_find(char path[PATH_MAX], char *why, size_t n_why)
{
    static const char *const places[] = {DP_BIN_TO_LIB, "../../../runtime_hooks/preload", DP_LIBDIR};
    char self[PATH_MAX], dir[PATH_MAX];
    if (dp_query_naming_installed(places, sizeof places / sizeof *places, NAME, self, dir)) {
        snprintf(why, n_why, NAME " is not there; looked in %s/%s and " DP_LIBDIR, self, places[0]);
        return -ENOENT;
    }
    snprintf(path, PATH_MAX, "%.*s/" NAME, (int)(PATH_MAX - sizeof NAME - 1), dir);
    if (!strpbrk(path, " \t\n:"))
        return 0;
    snprintf(why, n_why, "%s cannot be preloaded: its path has a blank or a colon, where ld.so splits the list", path);
    return -EINVAL;
}
