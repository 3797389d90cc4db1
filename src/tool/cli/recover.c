/* SPDX-License-Identifier: MIT */
/* tool/cli/recover.c - `deltaprof recover`: writes the last profiles of processes that were killed. */
#include "tool/cli/cli.h"
#include "tool/query/print.h"
#include "tool/recover/recover.h"

#include <stdio.h>

static const char about[] =
    "Processes that were killed leave tables in a tmpfs (key tables). This writes what their files do not have yet, "
    "as\n"
    "the next files of each process in its own directory, with the comments #ended and #killed, and deletes the "
    "tables.\n"
    "DIR is the directory of the tables; without it, that of the user. Other verbs do the same for the directories "
    "that\n"
    "they read. A table of another build of the library stays, and is named.\n"
    "\n"
    "Exit status: 0; 1 if a table could not be read or its files not be written; 2 for wrong usage.\n";

static int n_failed;

static void print_failure(const char *why)
{
    n_failed++;
    dp_query_print_error("recover", "%s", why);
}

int dp_cli_recover(int argc, char **argv)
{
    if (dp_cli_help(argc, argv, about))
        return 0;
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        dp_query_print_error("recover", "wrong arguments: deltaprof recover %s", dp_cli_verb("recover")->arguments);
        return DP_EXIT_USAGE;
    }
    n_failed = 0;
    int n = dp_recover_all(argc == 2 ? argv[1] : NULL, NULL, print_failure);
    if (n >= 0)
        printf("%d process%s recovered\n", n, n == 1 ? "" : "es");
    return n_failed ? DP_EXIT_FAILED : 0;
}
