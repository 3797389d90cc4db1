/* SPDX-License-Identifier: MIT */
/* tool/cli/pgo.c - `deltaprof pgo`: makes a profile for a compiler from CPU samples. */
#include "tool/cli/cli.h"
#include "tool/cli/live.h"
#include "tool/cli/out.h"
#include "tool/pgo/write.h"
#include "tool/query/print.h"
#include "tool/query/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char about[] =
    "Makes a profile for an optimising compiler (PGO) from the CPU samples of all PATHs, of which each is a\n"
    "directory of profiles, a file, a glob or a PID. The file that was profiled must still be there, with its "
    "build-id\n"
    "and with line tables:\n"
    "\n"
    "    clang -O2 -g -fdebug-info-for-profiling -funique-internal-linkage-names ...   # the build that runs\n"
    "    deltaprof run -o out=profiles,cpu_rate=4ms -- ./program\n"
    "    deltaprof pgo profiles --for clang -o program.prof\n"
    "    clang -O2 (the same flags) -fprofile-sample-use=program.prof ...\n"
    "\n"
    "  --for TOOL      clang: LLVM's sample profile as text, for clang and rustc; bolt: addresses, for\n"
    "                  perf2bolt PROGRAM --pa --ba -p FILE -o PROGRAM.fdata\n"
    "  -o FILE         where to write it (default: standard output)\n"
    "  --object FILE   the program or library whose samples count (default: the program, at its path of then)\n"
    "  --label KEY=VALUE  only samples with this label\n"
    "  --limit BYTES   the largest size of a PATH's file after decompression (k M G; default 1G)\n";

enum { FOR = 1, OBJECT };
enum { TOOL_NONE, TOOL_CLANG, TOOL_BOLT };

#define FEW_SAMPLES 10000

static int tool_named(const char *name)
{
    return !strcmp(name, "clang") ? TOOL_CLANG : !strcmp(name, "bolt") ? TOOL_BOLT : TOOL_NONE;
}

/* What the file is worth. */
static void print_summary(const struct dp_pgo_samples *s, int64_t n_lost)
{
    fprintf(stderr, "deltaprof pgo: %" PRId64 " of %" PRId64 " samples are of this file", s->n, s->n_all);
    if (n_lost)
        fprintf(stderr, "; %" PRId64 " have no line", n_lost);
    if (s->n < FEW_SAMPLES)
        fprintf(stderr, "; more would help: 30,000 are two minutes of CPU time at cpu_rate=4ms");
    fputc('\n', stderr);
}

static int write_file(const struct dp_pgo_samples *s, const struct dp_pgo_profile *p, int tool, const char *path)
{
    struct dp_cli_out out;
    int status = dp_cli_out_open_plain(&out, "pgo", path);
    if (status)
        return status;
    int err = tool == TOOL_CLANG ? dp_pgo_write_clang(p, dp_cli_out_write, &out)
                                 : dp_pgo_write_bolt(s, dp_cli_out_write, &out);
    return dp_cli_out_close(&out, err);
}

static int convert(const struct dp_query *v, int tool, const char *object, const char *path)
{
    struct dp_pgo_samples samples = {0};
    struct dp_pgo_profile profile = {0};
    int status = dp_pgo_samples_read(&samples, v, object);
    if (!status && tool == TOOL_CLANG && dp_pgo_profile_make(&profile, &samples)) {
        dp_query_print_error("pgo", "out of memory");
        status = DP_EXIT_FAILED;
    }
    if (!status && (!samples.n || profile.n_lost == samples.n)) {
        dp_query_print_error("pgo", "no sample has %s: %s", samples.n ? "a line" : "an address in this file",
                             samples.n ? "the file was built without -g, or its debug information is not here"
                                       : "it used no CPU time, or other files did; --object FILE names another one");
        status = DP_EXIT_FAILED;
    }
    if (!status)
        status = write_file(&samples, &profile, tool, path);
    if (!status)
        print_summary(&samples, profile.n_lost);
    dp_pgo_profile_fini(&profile);
    dp_pgo_samples_fini(&samples);
    return status;
}

int dp_cli_pgo(int argc, char **argv)
{
    static const struct option options[] = {{"for", required_argument, NULL, FOR},
                                            {"object", required_argument, NULL, OBJECT},
                                            {"label", required_argument, NULL, DP_QUERY_OPTION_LABEL},
                                            {"limit", required_argument, NULL, DP_QUERY_OPTION_LIMIT},
                                            {0}};
    struct dp_query v;
    const char *path = NULL, *object = NULL, *tool = NULL;
    if (dp_cli_help(argc, argv, about))
        return 0;
    dp_query_files_init();
    int status = dp_query_init(&v, "pgo", argc);
    for (int option; !status && (option = getopt_long(argc, argv, ":o:", options, NULL)) != -1;) {
        if (option == 'o')
            path = optarg;
        else if (option == FOR)
            tool = optarg;
        else if (option == OBJECT)
            object = optarg;
        else
            status = dp_query_option(&v, argv, option);
    }
    if (!status && (!tool || !tool_named(tool))) {
        dp_query_print_error("pgo", "--for %s: clang or bolt", tool ? tool : "is missing");
        status = DP_EXIT_USAGE;
    }
    if (!status && optind == argc) {
        dp_query_print_error("pgo", "no profile given: deltaprof pgo PATH... --for clang -o FILE");
        status = DP_EXIT_USAGE;
    }
    v.kind = "cpu";
    v.type_name = "samples";
    if (!status)
        status = dp_cli_live_begin("pgo", argv + optind, argc - optind);
    if (!status)
        status = dp_query_read(&v, argv + optind, (size_t)(argc - optind));
    if (!status)
        status = convert(&v, tool_named(tool), object, path);
    dp_query_fini(&v);
    return status;
}
