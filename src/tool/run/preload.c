/* SPDX-License-Identifier: MIT */
/*
 * tool/run/preload.c - finds libdeltaprof_preload.so.0. The number belongs to the name: the link without it is for
 * linkers, and comes with development packages only. If the build for the other C library, glibc or musl, is installed,
 * its libraries are in a directory next to those of this build (DP_OTHER_LIBC_LIBRARIES).
 *
 * ld.so splits LD_PRELOAD at blanks and colons and knows no quoting, so a path that has one is refused.
 */
#include "tool/run/preload.h"

#include "tool/query/installed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NAME "libdeltaprof_preload.so." DP_SOVERSION

#ifdef __GLIBC__
enum { THIS_IS_MUSL = false };
#else
enum { THIS_IS_MUSL = true };
#endif

int dp_run_preload_find(bool is_musl, char path[PATH_MAX], char *why, size_t n_why)
{
    static const char *const same[] = {DP_BIN_TO_LIB, "../../../runtime_hooks/preload", DP_LIBDIR},
                             *const others[] = {DP_BIN_TO_LIB DP_OTHER_LIBC_LIBRARIES,
                                                DP_LIBDIR DP_OTHER_LIBC_LIBRARIES};
    char self[PATH_MAX], dir[PATH_MAX];
    bool is_same = is_musl == THIS_IS_MUSL;
    int err = is_same ? dp_query_naming_installed(same, sizeof same / sizeof *same, NAME, self, dir)
                      : dp_query_naming_installed(others, sizeof others / sizeof *others, NAME, self, dir);
    if (err) {
        snprintf(why, n_why, "%s" NAME " is not installed; looked in %s/%s and %s",
                 is_same   ? ""
                 : is_musl ? "the program uses another C library, musl: "
                           : "the program uses another C library, glibc: ",
                 self, is_same ? same[0] : others[0], is_same ? DP_LIBDIR : others[1]);
        return -ENOENT;
    }
    snprintf(path, PATH_MAX, "%.*s/" NAME, (int)(PATH_MAX - sizeof NAME - 1), dir);
    if (!strpbrk(path, " \t\n:"))
        return 0;
    snprintf(why, n_why, "%s cannot be preloaded: its path has a blank or a colon, where ld.so splits the list", path);
    return -EINVAL;
}
