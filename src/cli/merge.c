/* SPDX-License-Identifier: MIT */
/* cli/merge.c - `deltaprof merge`: merges many profiles into one. */
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/out.h"
#include "print/print.h"
#include "query/files.h"
#include "query/paths.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char about[] =
    "Merges all profiles at PATH into one gzipped pprof file. A PATH is a pprof file of any producer, raw or\n"
    "gzipped (- is standard input), a directory of profiles, or a glob.\n"
    "\n"
    "Types that count the events of a window (alloc_*, contentions, delay and all others) are summed over all\n"
    "files. Memory in use (inuse_*) is taken from the newest file of each process that has not ended, and summed\n"
    "over processes. If all processes have ended, it is taken from the last file before the exit of each. The name\n"
    "PROGRAM.PID.SEQ.KIND.pb.gz tells the process of a file. Files with other names are grouped by program and\n"
    "ordered by time. A file counts once, however many PATHs name it.\n"
    "\n"
    "If one of several files cannot be read, merge names it, writes the others, and exits with 1.\n"
    "\n"
    "  -o OUT          where to write it (default: standard output); a file appears when it is complete\n"
    "  --kind KIND     which profiles of a directory: heap, block, mutex or events (default: heap)\n"
    "  --inherited     also add, in a sum over processes, the memory that a process inherited at its fork\n"
    "  --limit BYTES   the largest size of a FILE after decompression (k M G; default 1G)\n";

static int read_all(struct dp_merge *merged, const struct dp_query_paths *paths, size_t limit_bytes, bool is_quiet)
{
    struct dp_query_source source = {.is_quiet = is_quiet};
    struct dp_merge_place *places = calloc(paths->n, sizeof *places);
    int status = !places || dp_query_places(paths->at, paths->n, places) ? DP_EXIT_FAILED : 0;
    if (status)
        dp_print_error("merge", "out of memory");
    for (size_t i = 0; i < paths->n && !status; i++) {
        struct dp_decode_error error;
        status = dp_query_read_file("merge", paths->at[i], limit_bytes, &source);
        int result = status ? 0 : dp_merge_add(merged, &source.decode, places[i], &error);
        if (result)
            status = result != -ENOMEM && is_quiet ? DP_QUERY_BROKEN
                                                   : dp_query_refuse("merge", paths->at[i], result, &error);
    }
    dp_query_source_fini(&source);
    free(places);
    return status;
}

static int merge(struct dp_query_paths *paths, size_t limit_bytes, bool with_inherited, const char *path)
{
    struct dp_merge merged = {.with_inherited = with_inherited};
    size_t n_left_out = 0;
    int status = read_all(&merged, paths, limit_bytes, dp_query_may_sift(paths));
    while (status == DP_QUERY_BROKEN) {
        size_t n_before = paths->n;
        dp_merge_fini(&merged);
        merged = (struct dp_merge){.with_inherited = with_inherited};
        status = dp_query_leave_out_broken(paths, "merge", limit_bytes, &n_left_out);
        if (!status)
            status = read_all(&merged, paths, limit_bytes, paths->n < n_before && dp_query_may_sift(paths));
    }
    struct dp_cli_out out;
    if (!status && dp_merge_choose(&merged)) {
        dp_print_error("merge", "out of memory");
        status = DP_EXIT_FAILED;
    }
    if (!status)
        status = dp_cli_out_open(&out, "merge", path);
    if (!status)
        status = dp_cli_out_close(&out, dp_merge_write(&merged, dp_cli_out_write, &out));
    dp_merge_fini(&merged);
    return status ? status : n_left_out ? DP_EXIT_FAILED : 0;
}

int dp_cli_merge(int argc, char **argv)
{
    const char *kind = NULL;
    bool with_inherited = false;
    const struct dp_cli_option own[] = {{"inherited", NULL, &with_inherited}, {"kind", &kind, NULL}, {0}};
    struct dp_cli_output output;
    if (dp_cli_help(argc, argv, about))
        return 0;
    if (dp_cli_options_read(argc, argv, own, &output))
        return DP_EXIT_USAGE;
    if (optind == argc) {
        dp_print_error("merge", "no file given: deltaprof merge FILE... -o OUT");
        return DP_EXIT_USAGE;
    }
    struct dp_query_paths paths = {.n = 0};
    int status = dp_query_paths_add_all(&paths, "merge", argv + optind, (size_t)(argc - optind));
    if (!status)
        status = dp_query_paths_choose(&paths, "merge", kind, NULL);
    if (!status)
        status = merge(&paths, output.limit_bytes, with_inherited, output.path);
    if (!status && *paths.others && !kind)
        dp_print_error("merge", "only one kind of profile was merged; to merge the others: --kind %s", paths.others);
    dp_query_paths_fini(&paths);
    return status;
}
