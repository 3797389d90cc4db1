/* SPDX-License-Identifier: MIT */
/* cli/push.c - `deltaprof push`: becomes the program deltaprof-push, which alone links a network library. */
#include "cli/cli.h"

#include "cli/pusher.h"
#include "naming/installed.h"
#include "print/print.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAME "deltaprof-push"

int dp_cli_pusher(char path[PATH_MAX])
{
    static const char *const places[] = {DP_BIN_TO_LIB "/deltaprof", "../push", DP_LIBDIR "/deltaprof"};
    char self[PATH_MAX], dir[PATH_MAX];
    int err = dp_naming_installed(places, sizeof places / sizeof *places, NAME, self, dir);
    if (!err)
        snprintf(path, PATH_MAX, "%.*s/" NAME, (int)(PATH_MAX - sizeof NAME - 1), dir);
    return err;
}

int dp_cli_push(int argc, char **argv)
{
    (void)argc;
    char path[PATH_MAX];
    int err = dp_cli_pusher(path);
    if (!err) {
        execv(path, argv);
        err = -errno;
    }
    dp_print_error("push", NAME " cannot be started: %s", strerror(-err));
    return DP_EXIT_FAILED;
}
