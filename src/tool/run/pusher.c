/* SPDX-License-Identifier: MIT */
/* tool/run/pusher.c - deltaprof-push lies beside the modules; in a build tree, in the room push. */
#include "tool/run/pusher.h"

#include "tool/query/installed.h"

#include <stdio.h>

#define NAME "deltaprof-push"

int dp_run_pusher_find(char path[PATH_MAX])
{
    static const char *const places[] = {DP_BIN_TO_LIB "/deltaprof", "../push", DP_LIBDIR "/deltaprof"};
    char self[PATH_MAX], dir[PATH_MAX];
    int err = dp_query_naming_installed(places, sizeof places / sizeof *places, NAME, self, dir);
    if (!err)
        snprintf(path, PATH_MAX, "%.*s/" NAME, (int)(PATH_MAX - sizeof NAME - 1), dir);
    return err;
}
