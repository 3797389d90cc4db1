/* SPDX-License-Identifier: MIT */
/* tool/cli/serve.c - `deltaprof serve`: one endpoint for all profiled processes of a user. */
#include "tool/cli/cli.h"
#include "tool/query/print.h"
#include "tool/serve/serve.h"

#include <getopt.h>
#include <limits.h>
#include <stdlib.h>

static const char about[] =
    "Serves /debug/pprof/ for all processes whose tables lie in TABLES (key tables; without it, the user's own\n"
    "directory): sums over living and ended processes, with the label pid; ?pid=N is one of them. The processes need\n"
    "no thread, socket or file for it. Those that end, also by kill -9, count to the end.\n"
    "\n"
    "  delta_heap, delta_mutex, delta_block, delta_chain, delta_cpu   since this cursor's last reply (?cursor=NAME)\n"
    "  heap, allocs, mutex, block, chain, cpu                         since the start (?seconds=N: the next N "
    "seconds)\n"
    "  profile                                                        CPU time of 30 seconds\n"
    "  view, metrics                                                  the live page; OpenMetrics\n"
    "\n"
    "Where threads wait (wall) is told by a process itself: its files and its own endpoint have it.\n"
    "Cursors live in this process: after a restart of serve the first delta begins at each process's start again.\n"
    "While it runs, other commands leave the tables of ended processes to it.\n"
    "\n"
    "  --listen ADDRESS  HOST:PORT, HOST:PORT-PORT (the first free one) or unix:PATH; default 127.0.0.1:6060\n"
    "  --token FILE      its first line is asked for, as Bearer or as a password; needed for other machines\n"
    "  --while PID       ends when this process and all in TABLES have ended\n"
    "\n"
    "Exit status: 0 after SIGINT or SIGTERM; 1 if nothing could be served; 2 for wrong usage.\n";

enum { LISTEN = 1, TOKEN, WHILE };

int dp_cli_serve(int argc, char **argv)
{
    static const struct option options[] = {{"listen", required_argument, NULL, LISTEN},
                                            {"token", required_argument, NULL, TOKEN},
                                            {"while", required_argument, NULL, WHILE},
                                            {0}};
    struct dp_serve_options serve = {.listen = "127.0.0.1:6060", .token = ""};
    int option;
    if (dp_cli_help(argc, argv, about))
        return 0;
    while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        char *end;
        if (option == LISTEN)
            serve.listen = optarg;
        else if (option == TOKEN)
            serve.token = optarg;
        else if (option != WHILE)
            return DP_EXIT_USAGE;
        else if ((serve.program = (pid_t)strtol(optarg, &end, 10)) <= 0 || *end) {
            dp_query_print_error("serve", "--while %s: not the number of a process", optarg);
            return DP_EXIT_USAGE;
        }
    }
    if (argc - optind > 1) {
        dp_query_print_error("serve", "wrong arguments: deltaprof serve %s", dp_cli_verb("serve")->arguments);
        return DP_EXIT_USAGE;
    }
    serve.tables = argv[optind];
    return dp_serve_run(&serve);
}
