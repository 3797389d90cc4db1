/* SPDX-License-Identifier: MIT */
/* tool/recover/library.c - loads libdeltaprof, by which tables of the same build can be read. */
#include "tool/recover/library.h"

#include "tool/query/installed.h"

#include <dlfcn.h>
#include <stdio.h>

#define NAME "libdeltaprof.so." DP_SOVERSION

const struct deltaprof_outside *dp_recover_library(char *why, size_t n_why)
{
    static const char *const places[] = {DP_BIN_TO_LIB, "../..", DP_LIBDIR};
    char self[PATH_MAX], dir[PATH_MAX], path[PATH_MAX + sizeof NAME + 1];
    if (dp_query_naming_installed(places, sizeof places / sizeof *places, NAME, self, dir)) {
        snprintf(why, n_why, NAME " is not there; looked in %.200s/%s and " DP_LIBDIR, self, places[0]);
        return NULL;
    }
    snprintf(path, sizeof path, "%s/" NAME, dir);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct deltaprof_outside *(*functions)(void) =
        library ? (const struct deltaprof_outside *(*)(void))dlsym(library, "deltaprof_outside") : NULL;
    if (!functions) {
        snprintf(why, n_why, "%s", dlerror());
        return NULL;
    }
    return functions();
}
