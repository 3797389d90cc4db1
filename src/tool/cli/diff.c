/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/diff.c - `deltaprof diff`: writes the delta of two profiles of a process, or, of a series, of each profile
 * and the one before it.
 */
#include "tool/cli/cli.h"
#include "tool/cli/options.h"
#include "tool/cli/out.h"
#include "tool/model/diff.h"
#include "tool/query/print.h"
#include "tool/query/files.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char about[] =
    "Writes what happened between two pprof files of one process, raw or gzipped, of any producer. Values of the\n"
    "types in --flows are subtracted; everything else is taken from NEW. The result has only the functions,\n"
    "mappings and strings that it uses. OLD or NEW may be - for standard input.\n"
    "\n"
    "  -o OUT                where to write it (default: standard output); a file appears when it is complete\n"
    "  --flows TYPE[,TYPE]   the sample types to subtract (default: all flows, as alloc_*, contentions, delay)\n"
    "  --negative WHAT       if a value to subtract went down: clamp (write 0, the default), drop (leave the sample\n"
    "                        out), or keep (write the negative value)\n"
    "  --ignore-label KEY    samples that differ only in this label count as one; may be given more than once\n"
    "  --limit BYTES         the largest size of a file after decompression (k M G; default 1G)\n"
    "\n"
    "With --stream -o DIR FILE..., each FILE is compared with the one before it, and the result is written to\n"
    "DIR/NAME.delta.pb.gz. The files are successive profiles of one process. - reads a list of files from standard\n"
    "input, one a line. Two files with the same NAME end the command with an error.\n"
    "\n"
    "  --first skip|full     the first file only sets the baseline (skip, the default), or is also written,\n"
    "                        unchanged (full)\n";

struct options {
    struct dp_model_diff diff;
    const char *path;
    size_t limit_bytes;
    int stream, first, first_full;
    struct dp_strings written; /* names written so far: two files with the same name would overwrite a delta */
};

static int add(struct options *o, const char *file, struct dp_query_source *source)
{
    struct dp_decode_error error = {""};
    struct stat st;
    if (strcmp(file, "-") && !stat(file, &st) && S_ISDIR(st.st_mode)) {
        dp_query_print_error("diff",
                             "%s: a directory; diff subtracts files of one process in their order: name them, as in "
                             "%s/PROGRAM.PID.*.heap.pb.gz; deltaprof growth takes directories",
                             file, file);
        return DP_EXIT_USAGE;
    }
    if (dp_cli_options_pid(file)) {
        dp_query_print_error("diff", "%s: no file; of a process deltaprof merge %s -o FILE makes one", file, file);
        return DP_EXIT_USAGE;
    }
    int status = dp_query_read_file("diff", file, o->limit_bytes, source);
    if (status)
        return status;
    int result = dp_model_diff_add(&o->diff, &source->decode, &error);
    if (result)
        status = dp_query_refuse("diff", file, result, &error);
    return result == -EINVAL ? DP_EXIT_USAGE : status;
}

static int write_diff(struct options *o, const char *file, const char *path)
{
    struct dp_cli_out out;
    struct dp_model_diff_result found = {0};
    int status = dp_cli_out_open(&out, "diff", path);
    if (!status)
        status = dp_cli_out_close(&out, dp_model_diff_write(&o->diff, dp_cli_out_write, &out, &found));
    static const char *const what[] = {
        [DP_DIFF_CLAMP] = "written as 0", [DP_DIFF_DROP] = "left out", [DP_DIFF_KEEP] = "written as negative"};
    if (!status && found.n_went_down)
        dp_query_print_error(
            "diff", "%s: %zu sample%s went down or vanished since the file before (another process?): %s",
            dp_query_file_name(file), found.n_went_down, found.n_went_down == 1 ? "" : "s", what[o->diff.negative]);
    return status;
}

static int diff_two(struct options *o, char **files)
{
    struct dp_query_source source = {0};
    int status = add(o, files[0], &source);
    if (!status)
        status = add(o, files[1], &source);
    dp_query_source_fini(&source);
    return status ? status : write_diff(o, files[1], o->path);
}

/* DIR/NAME.delta.pb.gz for .../NAME.pb.gz, to be freed; NULL: no memory. */
static char *delta_path(const char *dir, const char *file)
{
    static const char *const endings[] = {".pb.gz", ".pprof", ".gz", ".pb"};
    const char *name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t n_ending = strlen(endings[i]);
        if (n > n_ending && !strcmp(name + n - n_ending, endings[i])) {
            n -= n_ending;
            break;
        }
    }
    char *path;
    return asprintf(&path, "%s/%.*s.delta.pb.gz", dir, (int)n, name) < 0 ? NULL : path;
}

static int stream_file(struct options *o, const char *file, struct dp_query_source *source)
{
    bool is_first = o->diff.turn == 0;
    int status = add(o, file, source);
    if (status || (is_first && !o->first_full))
        return status;
    char *path = delta_path(o->path, file);
    size_t n_written = dp_strings_count(&o->written);
    if (!path || dp_strings_add(&o->written, path, strlen(path)) == DP_STRINGS_NONE) {
        dp_query_print_error("diff", "out of memory");
        status = DP_EXIT_FAILED;
    } else if (dp_strings_count(&o->written) == n_written) {
        dp_query_print_error("diff", "%s: %s was written for another file of this stream", file, path);
        status = DP_EXIT_FAILED;
    } else {
        status = write_diff(o, file, path);
    }
    free(path);
    return status;
}

static int stream_list(struct options *o, struct dp_query_source *source)
{
    char *line = NULL;
    size_t n_line = 0;
    ssize_t n;
    int status = 0;
    while (!status && (n = getline(&line, &n_line, stdin)) >= 0) {
        if (n && line[n - 1] == '\n')
            line[--n] = 0;
        if (n)
            status = stream_file(o, line, source);
    }
    free(line);
    return status;
}

static int diff_stream(struct options *o, char **files, size_t n)
{
    struct dp_query_source source = {0};
    int status = 0;
    if (mkdir(o->path, 0777) && errno != EEXIST) {
        dp_query_print_error("diff", "%s: %s", o->path, strerror(errno));
        return DP_EXIT_FAILED;
    }
    for (size_t i = 0; i < n && !status; i++)
        status = strcmp(files[i], "-") ? stream_file(o, files[i], &source) : stream_list(o, &source);
    dp_query_source_fini(&source);
    return status;
}

/* The position of value in a list that ends in NULL, or -1. */
static int choice(const char *option, const char *value, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(value, words[i]))
            return i;
    dp_query_print_error("diff", "%s %s is not a choice; deltaprof diff --help lists them", option, value);
    return -1;
}

static int parse(struct options *o, int argc, char **argv)
{
    static const struct option options[] = {{"flows", required_argument, NULL, 'f'},
                                            {"negative", required_argument, NULL, 'n'},
                                            {"ignore-label", required_argument, NULL, 'i'},
                                            {"limit", required_argument, NULL, 'l'},
                                            {"stream", no_argument, NULL, 's'},
                                            {"first", required_argument, NULL, '1'},
                                            {0}};
    static const char *const negatives[] = {
        [DP_DIFF_CLAMP] = "clamp", [DP_DIFF_DROP] = "drop", [DP_DIFF_KEEP] = "keep", NULL};
    static const char *const firsts[] = {"skip", "full", NULL};
    for (int option; (option = getopt_long(argc, argv, ":o:", options, NULL)) != -1;) {
        int chosen = 0;
        switch (option) {
        case 'o':
            o->path = optarg;
            break;
        case 'f':
            o->diff.flows = optarg;
            break;
        case 'n':
            chosen = choice("--negative", optarg, negatives);
            o->diff.negative = (enum dp_model_diff_negative)chosen;
            break;
        case 'i':
            chosen = dp_model_diff_ignore_label(&o->diff, optarg);
            break;
        case 'l':
            chosen = dp_query_limit("diff", optarg, &o->limit_bytes) ? -1 : 0;
            break;
        case 's':
            o->stream = 1;
            break;
        case '1':
            o->first = 1;
            o->first_full = chosen = choice("--first", optarg, firsts);
            break;
        default:
            return dp_query_bad_option(argv, option);
        }
        if (chosen < 0)
            return DP_EXIT_USAGE;
    }
    if (o->stream ? optind == argc || !o->path : argc - optind != 2) {
        dp_query_print_error("diff", o->stream ? "--stream needs -o DIR and at least one file"
                                               : "two files needed: OLD and NEW");
        return DP_EXIT_USAGE;
    }
    if (o->first && !o->stream) {
        dp_query_print_error("diff", "--first needs --stream");
        return DP_EXIT_USAGE;
    }
    return 0;
}

int dp_cli_diff(int argc, char **argv)
{
    if (dp_cli_help(argc, argv, about))
        return 0;
    struct options o = {.limit_bytes = DP_DECODE_LIMIT};
    dp_query_files_init();
    int status = parse(&o, argc, argv);
    if (!status && o.stream)
        status = diff_stream(&o, argv + optind, (size_t)(argc - optind));
    else if (!status)
        status = diff_two(&o, argv + optind);
    dp_model_diff_fini(&o.diff);
    dp_strings_fini(&o.written);
    return status;
}
