/* SPDX-License-Identifier: MIT */
/* tool/cli/serve.c - `deltaprof serve`: one endpoint for all profiled processes of a user. */
#include "tool/cli/cli.h"
#include "base/text.h"
#include "config/config.h"
#include "tool/query/print.h"
#include "tool/run/pusher.h"
#include "tool/serve/serve.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char about[] =
    "Serves /debug/pprof/ for all processes whose tables lie in TABLES (key tables; without it, the user's own\n"
    "directory): sums over living and ended processes, with the label pid; ?pid=N is one of them. The processes need\n"
    "no thread, socket or file for it. Those that end, also by kill -9, count to the end.\n"
    "\n"
    "  delta_heap, delta_mutex, delta_block, delta_chain, delta_cpu   since this cursor's last reply (?cursor=NAME)\n"
    "  heap, allocs, mutex, block, chain, cpu                         since the start (?seconds=N: the next N "
    "seconds)\n"
    "  profile                                                        CPU time of 30 seconds\n"
    "  view, metrics, waits                                           the live page; OpenMetrics; who waits now\n"
    "\n"
    "Where threads wait (wall) is told by a process itself: its files and its own endpoint have it.\n"
    "Cursors are kept beside the tables, and within a day the next serve goes on with them, also after a kill -9:\n"
    "a client that asks with ?after=N then gets each event once. The tables' tmpfs must have room for them.\n"
    "While it runs, other commands leave the tables of ended processes to it.\n"
    "\n"
    "  -o DIR            every interval, writes what each process did as files DIR/PROGRAM.PID.SEQ.KIND.pb.gz, as a\n"
    "                    process with out=DIR does; of those that write none themselves (out=none). The last files\n"
    "                    of one that ended have the comments #ended and, if it was killed, #killed. A server that\n"
    "                    ends or is killed, and is started again, also with another DIR, loses nothing and writes\n"
    "                    nothing twice: processes that end within an hour leave their tables to the next one\n"
    "  --interval TIME   between the files of a process (15s); 0: only the last ones are written\n"
    "  --keep N          ticks of files that are kept of each process that runs, and of all that have ended; the\n"
    "                    oldest are deleted, each ten minutes and at the end (5760); 0: all are kept\n"
    "  --to URL          sends these files to a profiling database, as deltaprof push DIR --to URL does, and with the\n"
    "                    files of its variables (DELTAPROF_PUSH_TOKEN); may be repeated\n"
    "  --listen ADDRESS  HOST:PORT, HOST:PORT-PORT (the first free one) or unix:PATH; default 127.0.0.1:6060\n"
    "  --token FILE      its first line is asked for, as Bearer or as a password; needed for other machines\n"
    "  --while PID       ends when this process and all in TABLES have ended\n"
    "\n"
    "Exit status: 0 after SIGINT or SIGTERM; 1 if nothing could be served; 2 for wrong usage.\n";

enum { LISTEN = 1, TOKEN, WHILE, INTERVAL, TO, KEEP, OUT = 'o' };

static int refuse(const char *option, const char *value, const char *why)
{
    dp_query_print_error("serve", "%s %s: %s", option, value, why);
    return DP_EXIT_USAGE;
}

/* As the key `push` of `run`. */
static bool is_receiver(const char *url)
{
    static struct dp_config conf;
    struct dp_config_error error;
    char text[DP_CONFIG_TEXT + 8];
    dp_config_init(&conf);
    return strlen(url) < DP_CONFIG_TEXT && !strchr(url, ',') && strcmp(url, "none") &&
           snprintf(text, sizeof text, "push=%s", url) > 0 && !dp_config_parse(&conf, text, &error);
}

int dp_cli_serve(int argc, char **argv)
{
    static const struct option options[] = {{"listen", required_argument, NULL, LISTEN},
                                            {"token", required_argument, NULL, TOKEN},
                                            {"while", required_argument, NULL, WHILE},
                                            {"interval", required_argument, NULL, INTERVAL},
                                            {"to", required_argument, NULL, TO},
                                            {"keep", required_argument, NULL, KEEP},
                                            {0}};
    struct dp_serve_options serve = {
        .listen = "127.0.0.1:6060", .token = "", .interval_ns = INT64_C(15000000000), .keep = 5760};
    const char *interval = NULL, *keep = NULL;
    char pusher[PATH_MAX];
    int option;
    if (dp_cli_help(argc, argv, about))
        return 0;
    while ((option = getopt_long(argc, argv, "o:", options, NULL)) >= 0) {
        char *end;
        if (option == LISTEN)
            serve.listen = optarg;
        else if (option == TOKEN)
            serve.token = optarg;
        else if (option == OUT)
            serve.out = optarg;
        else if (option == INTERVAL && !dp_text_read_time(optarg, &serve.interval_ns) && serve.interval_ns >= 0)
            interval = optarg;
        else if (option == INTERVAL)
            return refuse("--interval", optarg, "not a time, such as 500ms or 15s");
        else if (option == KEEP && !dp_text_read_count(optarg, &serve.keep))
            keep = optarg;
        else if (option == KEEP)
            return refuse("--keep", optarg, "not a number of ticks; 0 keeps all");
        else if (option == TO && !is_receiver(optarg))
            return refuse("--to", optarg, "not pyroscope+http://HOST:PORT, parca+, otlp+ or pprof+, or with https");
        else if (option == TO && serve.n_to == DP_SERVE_PUSHERS_MOST)
            return refuse("--to", optarg, "no more than 8 receivers");
        else if (option == TO)
            serve.to[serve.n_to++] = optarg;
        else if (option != WHILE)
            return DP_EXIT_USAGE;
        else if ((serve.program = (pid_t)strtol(optarg, &end, 10)) <= 0 || *end)
            return refuse("--while", optarg, "not the number of a process");
    }
    if (argc - optind > 1) {
        dp_query_print_error("serve", "wrong arguments: deltaprof serve %s", dp_cli_verb("serve")->arguments);
        return DP_EXIT_USAGE;
    }
    if (interval && !serve.out)
        return refuse("--interval", interval, "needs -o DIR, where files are written");
    if (keep && !serve.out)
        return refuse("--keep", keep, "needs -o DIR, where files are written");
    if (serve.n_to && !serve.out)
        return refuse("--to", serve.to[0], "needs -o DIR, whose files are sent");
    if (serve.n_to && dp_run_pusher_find(pusher)) {
        dp_query_print_error("serve", "--to %s: deltaprof-push is not installed", serve.to[0]);
        return DP_EXIT_FAILED;
    }
    serve.pusher = pusher;
    serve.tables = argv[optind];
    return dp_serve_run(&serve);
}
