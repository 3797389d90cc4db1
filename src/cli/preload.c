/* SPDX-License-Identifier: MIT */
/*
 * cli/preload.c - finds libdeltaprof_preload.so from where this program is.
 *
 * First as installed together (bin/ and lib/ may have moved as a whole), then as built together, then where the build
 * was told that it would be. ld.so splits LD_PRELOAD at blanks and colons and knows no quoting, so such a path is
 * refused.
 */
#include "cli/preload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "libdeltaprof_preload.so"

static const char *const places[] = {DP_BIN_TO_LIB, "../../runtime_hooks/preload", DP_LIBDIR};

int dp_preload_find(char path[PATH_MAX], char *why, size_t n_why)
{
    char self[PATH_MAX], candidate[2 * PATH_MAX], dir[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n < 0 ? 0 : n] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (places[i][0] != '/' && !slash)
            continue;
        snprintf(candidate, sizeof candidate, "%s%s%s", places[i][0] == '/' ? "" : self, places[i][0] == '/' ? "" : "/",
                 places[i]);
        if (!realpath(candidate, dir) || snprintf(path, PATH_MAX, "%s/" NAME, dir) >= PATH_MAX || access(path, R_OK))
            continue;
        if (!strpbrk(path, " \t\n:"))
            return 0;
        snprintf(why, n_why, "%s cannot be preloaded: its path has a blank or a colon, where ld.so splits the list",
                 path);
        return -EINVAL;
    }
    snprintf(why, n_why, NAME " is not there; looked in %s/%s and " DP_LIBDIR, self, places[0]);
    return -ENOENT;
}
