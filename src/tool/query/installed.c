/* SPDX-License-Identifier: MIT */
/*
 * tool/query/installed.c - finds files of this installation, starting from the directory of this program.
 *
 * Callers name first the place relative to this program (the whole installation may have been moved), then the place in
 * the build tree, then the configured directory.
 */
#include "tool/query/installed.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* The file of this program, also where /proc is not mounted. */
static void find_self(char self[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", self, PATH_MAX - 1);
    self[n < 0 ? 0 : n] = 0;
    const char *executed = (const char *)getauxval(AT_EXECFN);
    if (n < 0 && executed && !realpath(executed, self))
        *self = 0;
}

/*
 * Sets path to the place seen from `from`, a path without links. Each ".." is resolved here: for one, realpath of glibc
 * 2.33 and newer calls faccessat2, which filters of older container engines refuse.
 */
static void join(const char *from, const char *place, char path[PATH_MAX])
{
    size_t n = (size_t)snprintf(path, PATH_MAX, "%s", from);
    while (*place) {
        size_t n_name = strcspn(place, "/");
        if (n_name == 2 && !strncmp(place, "..", 2))
            while (n && path[--n] != '/')
                ;
        else if (n + n_name + 1 < PATH_MAX)
            n += (size_t)snprintf(path + n, PATH_MAX - n, "/%.*s", (int)n_name, place);
        path[n] = 0;
        place += n_name;
        place += strspn(place, "/");
    }
}

int dp_query_naming_installed(const char *const *places, size_t n_places, const char *name, char self[PATH_MAX],
                              char dir[PATH_MAX])
{
    char candidate[2 * PATH_MAX];
    find_self(self);
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    for (size_t i = 0; i < n_places; i++) {
        bool from_here = places[i][0] != '/';
        if (from_here && !slash)
            continue;
        join(from_here ? self : "", places[i] + !from_here, candidate);
        if (realpath(candidate, dir) && snprintf(candidate, sizeof candidate, "%s/%s", dir, name) < PATH_MAX &&
            access(candidate, R_OK) == 0)
            return 0;
    }
    return -ENOENT;
}

int dp_query_naming_module_dir(char dir[PATH_MAX])
{
    static const char *const places[] = {DP_BIN_TO_LIB "/deltaprof", "../../modules", DP_LIBDIR "/deltaprof"};
    char self[PATH_MAX];
    return dp_query_naming_installed(places, sizeof places / sizeof *places, "symbolize.so", self, dir);
}
