/* SPDX-License-Identifier: MIT */
/*
 * tool/recover/library.c - loads libdeltaprof, by which tables of the same build can be read.
 *
 * The library's thread state is in static TLS (a hook must not allocate it). glibc has room for that in a running
 * program; musl only for libraries that are loaded at its begin.
 */
#include "tool/recover/library.h"

#include "tool/query/installed.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "libdeltaprof.so." DP_SOVERSION

static const char *const places[] = {DP_BIN_TO_LIB, "../..", DP_LIBDIR};

/* False: self has the directory of this program. */
static bool find_library(char path[PATH_MAX + sizeof NAME + 1], char self[PATH_MAX])
{
    char dir[PATH_MAX];
    if (dp_query_naming_installed(places, sizeof places / sizeof *places, NAME, self, dir))
        return false;
    snprintf(path, PATH_MAX + sizeof NAME + 1, "%s/" NAME, dir);
    return true;
}

const struct deltaprof_outside *dp_recover_library(char *why, size_t n_why)
{
    char self[PATH_MAX], path[PATH_MAX + sizeof NAME + 1];
    if (!find_library(path, self)) {
        snprintf(why, n_why, NAME " is not there; looked in %.200s/%s and " DP_LIBDIR, self, places[0]);
        return NULL;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct deltaprof_outside *(*functions)(void) =
        library ? (const struct deltaprof_outside *(*)(void))dlsym(library, "deltaprof_outside") : NULL;
    if (!functions) {
        snprintf(why, n_why, "%s", dlerror());
        return NULL;
    }
    return functions();
}

void dp_recover_library_preload(char **argv)
{
    char self[PATH_MAX], path[PATH_MAX + sizeof NAME + 1];
    if (find_library(path, self) && !strpbrk(path, " \t\n:") && !setenv("LD_PRELOAD", path, 1))
        execv("/proc/self/exe", argv);
}
