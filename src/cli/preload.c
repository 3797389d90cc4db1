/* SPDX-License-Identifier: MIT */
/*
 * cli/preload.c - finds libdeltaprof_preload.so and the modules, starting from the directory of this program.
 *
 * It looks first where they are installed relative to this program (the whole installation may have been moved), then
 * in the build tree, then in the configured directory. ld.so splits LD_PRELOAD at blanks and colons and knows no
 * quoting, so such a path is refused.
 */
#include "cli/preload.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "libdeltaprof_preload.so"

/* Finds the first place that has a file of that name; -ENOENT if none has. self gets the directory of this program. */
static int find(const char *const *places, size_t n_places, const char *name, char self[PATH_MAX], char dir[PATH_MAX])
{
    char candidate[2 * PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, PATH_MAX - 1);
    self[n < 0 ? 0 : n] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    for (size_t i = 0; i < n_places; i++) {
        bool from_here = places[i][0] != '/';
        if (from_here && !slash)
            continue;
        snprintf(candidate, sizeof candidate, "%s%s%s", from_here ? self : "", from_here ? "/" : "", places[i]);
        if (realpath(candidate, dir) && snprintf(candidate, sizeof candidate, "%s/%s", dir, name) < PATH_MAX &&
            access(candidate, R_OK) == 0)
            return 0;
    }
    return -ENOENT;
}

int dp_preload_find(char path[PATH_MAX], char *why, size_t n_why)
{
    static const char *const places[] = {DP_BIN_TO_LIB, "../../runtime_hooks/preload", DP_LIBDIR};
    char self[PATH_MAX], dir[PATH_MAX];
    if (find(places, 3, NAME, self, dir)) {
        snprintf(why, n_why, NAME " is not there; looked in %s/%s and " DP_LIBDIR, self, places[0]);
        return -ENOENT;
    }
    snprintf(path, PATH_MAX, "%.*s/" NAME, (int)(PATH_MAX - sizeof NAME - 1), dir);
    if (!strpbrk(path, " \t\n:"))
        return 0;
    snprintf(why, n_why, "%s cannot be preloaded: its path has a blank or a colon, where ld.so splits the list", path);
    return -EINVAL;
}

int dp_cli_module_dir(char dir[PATH_MAX])
{
    static const char *const places[] = {DP_BIN_TO_LIB "/deltaprof", "../modules", DP_LIBDIR "/deltaprof"};
    char self[PATH_MAX];
    return find(places, 3, "symbolize.so", self, dir);
}
