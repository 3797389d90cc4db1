/* SPDX-License-Identifier: MIT */
/* tool/cli/push.c - `deltaprof push`: becomes the program deltaprof-push, which alone links a network library. */
#include "tool/cli/cli.h"

#include "tool/cli/live.h"
#include "tool/run/pusher.h"
#include "tool/query/print.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int dp_cli_push(int argc, char **argv)
{
    char path[PATH_MAX];
    int err = dp_run_pusher_find(path);
    dp_cli_live_deliver(argc, argv);
    if (!err) {
        execv(path, argv);
        err = -errno;
    }
    dp_query_print_error("push", "deltaprof-push cannot be started: %s", strerror(-err));
    return DP_EXIT_FAILED;
}
