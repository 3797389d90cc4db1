/* SPDX-License-Identifier: MIT */
/* tool/cli/merge.c - `deltaprof merge`: merges many profiles into one. */
#include "tool/cli/cli.h"
#include "tool/cli/live.h"
#include "tool/cli/out.h"
#include "tool/query/print.h"
#include "tool/query/query.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char about[] =
    "Merges all profiles at PATH into one gzipped pprof file. A PATH is a pprof file of any producer, raw or\n"
    "gzipped (- is standard input), a directory of profiles, a glob, or the PID of a living process.\n"
    "\n"
    "Types that count the events of a window (alloc_*, contentions, delay and all others) are summed over all\n"
    "files. Memory in use (inuse_*) is that of now, summed over the processes that have not ended. If all have ended,\n"
    "it is that of the time when they together had most in use. A comment of OUT says which time that is, and OUT\n"
    "has the memory in use of all times in a field that other readers skip: merged files can be merged again, with\n"
    "the same result. The name PROGRAM.PID.SEQ.KIND.pb.gz tells the process of a file. Files with other names are\n"
    "grouped by program and ordered by time. A file counts once, however many PATHs name it.\n"
    "\n"
    "If one of several files cannot be read, merge names it, writes the others, and exits with 1.\n"
    "\n"
    "  -o OUT          where to write it (default: standard output); a file appears when it is complete\n"
    "  --kind KIND     which profiles of a directory: heap, block, mutex, cpu, wall or events\n"
    "                  (default: heap)\n"
    "  --at WHEN       the time of memory in use: peak, end, last, HH:MM:SS or YYYY-MM-DD HH:MM:SS, as for top\n"
    "  --inherited     also add, in a sum over processes, the memory that a process inherited at its fork\n"
    "  --limit BYTES   the largest size of a FILE after decompression (k M G; default 1G)\n";

/* Says in a comment of which time the in-use values are. */
static int add_comment(struct dp_query *v)
{
    static const char *const words[] = {[DP_QUERY_AT_PEAK] = "the peak",
                                        [DP_QUERY_AT_END] = "the end",
                                        [DP_QUERY_AT_LAST] = "the last profile",
                                        [DP_QUERY_AT_TIME] = "the time that was asked for",
                                        [DP_QUERY_AT_NOW] = "the newest profile"};
    const struct dp_query_moments *ms = &v->moments;
    char text[128];
    if (ms->is_whole)
        return 0;
    snprintf(text, sizeof text, DP_COMMENT_IN_USE_AT "%lld, %s of %zu process%s", (long long)ms->time_ns,
             words[ms->which], ms->n_counted, ms->n_counted == 1 ? "" : "es");
    return dp_model_merge_comment(&v->merge, DP_COMMENT_IN_USE_AT, text);
}

static int merge(struct dp_query *v, char **paths, size_t n, const char *path)
{
    struct dp_cli_out out;
    v->merge.keeps_moments = true;
    v->falls_back = true;
    int status = dp_query_read(v, paths, n);
    if (!status && v->is_fallback)
        v->merge.header.default_type = v->merge.model.types.at[v->type].type;
    if (!status && add_comment(v)) {
        dp_query_print_error("merge", "out of memory");
        status = DP_EXIT_FAILED;
    }
    if (!status)
        status = dp_cli_out_open(&out, "merge", path);
    if (!status)
        status = dp_cli_out_close(&out, dp_model_merge_write(&v->merge, dp_cli_out_write, &out));
    return status;
}

int dp_cli_merge(int argc, char **argv)
{
    static const struct option options[] = {{"inherited", no_argument, NULL, DP_QUERY_OPTION_INHERITED},
                                            {"kind", required_argument, NULL, DP_QUERY_OPTION_KIND},
                                            {"at", required_argument, NULL, DP_QUERY_OPTION_AT},
                                            {"limit", required_argument, NULL, DP_QUERY_OPTION_LIMIT},
                                            {0}};
    struct dp_query v;
    const char *path = NULL;
    if (dp_cli_help(argc, argv, about))
        return 0;
    dp_query_files_init();
    int status = dp_query_init(&v, "merge", argc);
    for (int option; !status && (option = getopt_long(argc, argv, ":o:", options, NULL)) != -1;) {
        if (option == 'o')
            path = optarg;
        else
            status = dp_query_option(&v, argv, option);
    }
    if (!status && optind == argc) {
        dp_query_print_error("merge", "no file given: deltaprof merge FILE... -o OUT");
        status = DP_EXIT_USAGE;
    }
    if (!status)
        status = dp_cli_live_begin("merge", argv + optind, argc - optind);
    if (!status)
        status = merge(&v, argv + optind, (size_t)(argc - optind), path);
    if (!status && *v.paths.others && !v.kind)
        dp_query_print_error("merge", "only one kind of profile was merged; to merge the others: --kind %s",
                             v.paths.others);
    dp_query_fini(&v);
    return status;
}
