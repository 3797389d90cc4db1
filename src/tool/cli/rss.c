/* SPDX-License-Identifier: MIT */
/* tool/cli/rss.c - `deltaprof rss`: says of which parts the resident memory of a process consists. */
#include "tool/rss/rss.h"

#include "tool/query/at.h"
#include "tool/cli/cli.h"
#include "tool/query/print.h"
#include "tool/query/files.h"
#include "tool/query/json.h"
#include "tool/query/units.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char about[] =
    "Shows where the resident memory of a running process went, or of the processes that wrote the profiles at PATH\n"
    "(files and directories). The parts are: in use by malloc (the bytes asked for), what its size classes add to "
    "them,\n"
    "held by malloc beyond that, mappings (with mmap=on), stacks, private pages of files, the profiler itself, and "
    "the\n"
    "rest, which is not explained.\n"
    "\n"
    "A profiled process measures these parts at each tick and writes them into comments of its profiles. With PID,\n"
    "they are brought up to date by /proc/PID/smaps. The profiles of PID are read from the directory to which it\n"
    "writes them, or from DIR. The memory of a process that is not profiled is divided by kind of mapping. Shared\n"
    "memory and pages of files are not anonymous, and are shown separately.\n"
    "\n"
    "  --json            one JSON object; sizes are bytes\n";

enum { MAPPINGS_SHOWN = 5 };

/* ---- output ----------------------------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
    int64_t x = ((const struct dp_rss_part *)a)->bytes, y = ((const struct dp_rss_part *)b)->bytes;
    return (x < y) - (x > y);
}

static void print_json(const struct dp_rss *rss, int64_t explained)
{
    dp_query_print_json_number("{", "anonymous_bytes", rss->anonymous_bytes);
    dp_query_print_json_number(",", "explained_bytes", explained);
    dp_query_print_json_number(",", "unexplained_bytes", rss->anonymous_bytes - explained);
    dp_query_print_json_number(",", "error_bytes", rss->error_bytes);
    if (rss->absent_bytes > 0)
        dp_query_print_json_number(",", "absent_bytes", rss->absent_bytes);
    if (rss->file_bytes >= 0)
        dp_query_print_json_number(",", "file_bytes", rss->file_bytes);
    if (rss->shared_bytes >= 0)
        dp_query_print_json_number(",", "shared_bytes", rss->shared_bytes);
    if (rss->swap_bytes >= 0)
        dp_query_print_json_number(",", "swap_bytes", rss->swap_bytes);
    fputs(",\"parts\":[", stdout);
    for (size_t i = 0; i < rss->parts.n; i++) {
        dp_query_print_json_text(i ? ",\n{" : "\n{", "name", rss->parts.at[i].name);
        dp_query_print_json_number(",", "bytes", rss->parts.at[i].bytes);
        putchar('}');
    }
    puts("]}");
}

static void print_line(const struct dp_rss *rss, int64_t bytes, const char *name, const char *more)
{
    char text[32], clean[DP_RSS_NAME];
    dp_query_print_unit(text, sizeof text, bytes, "bytes");
    snprintf(clean, sizeof clean, "%s", name);
    dp_query_print_clean(clean);
    printf("%10s %5.1f%%  %s%s\n", text,
           rss->anonymous_bytes ? 100.0 * (double)bytes / (double)rss->anonymous_bytes : 0, clean, more);
}

static void print_beside(const char *what, int64_t bytes)
{
    char text[32];
    if (bytes <= 0)
        return;
    dp_query_print_unit(text, sizeof text, bytes, "bytes");
    printf("%10s         %s\n", text, what);
}

static void print_table(const struct dp_rss *rss, int64_t explained)
{
    char total[32], part[32], error[64] = "", when[64];
    dp_query_print_unit(total, sizeof total, rss->anonymous_bytes, "bytes");
    dp_query_print_unit(part, sizeof part, explained, "bytes");
    printf("Anonymous resident memory: %s, explained: %s (%.1f%%)\n", total, part,
           rss->anonymous_bytes ? 100.0 * (double)explained / (double)rss->anonymous_bytes : 100);
    if (rss->time_ns) {
        dp_query_at_text(when, sizeof when, rss->time_ns);
        printf("malloc's share is that of the profile of %s\n", when);
    }
    if (rss->error_bytes) {
        dp_query_print_unit(part, sizeof part, rss->error_bytes, "bytes");
        snprintf(error, sizeof error, " (sampled, +-%s)", part);
    }
    for (size_t i = 0; i < rss->parts.n; i++)
        print_line(rss, rss->parts.at[i].bytes, rss->parts.at[i].name,
                   strcmp(rss->parts.at[i].name, DP_RSS_IN_USE) ? "" : error);
    if (rss->anonymous_bytes - explained >= 1024)
        print_line(rss, rss->anonymous_bytes - explained, "not explained", "");
    print_beside("allocated, but never touched: not resident", rss->absent_bytes);
    print_beside("pages of files, not anonymous", rss->file_bytes);
    print_beside("shared memory, not anonymous", rss->shared_bytes);
    print_beside("in swap", rss->swap_bytes);
}

/* The largest mappings that no part explains, of a process that is not profiled. */
static void print_mappings(const struct dp_rss_process *p)
{
    size_t n_shown = 0;
    for (int64_t below = INT64_MAX; n_shown < MAPPINGS_SHOWN; n_shown++) {
        const struct dp_vma *largest = NULL;
        for (size_t i = 0; i < p->vmas.n; i++) {
            const struct dp_vma *vma = &p->vmas.at[i];
            if ((vma->kind == DP_VMA_MAPPED || vma->kind == DP_VMA_OTHER) && !vma->n_name &&
                vma->anonymous_bytes < below && vma->anonymous_bytes > (largest ? largest->anonymous_bytes : 0))
                largest = vma;
        }
        if (!largest)
            break;
        char text[32];
        below = largest->anonymous_bytes;
        dp_query_print_unit(text, sizeof text, below, "bytes");
        if (!n_shown)
            puts("The largest mappings that are not explained: an allocator's, or the program's own");
        printf("%10s         %zx-%zx\n", text, (size_t)largest->start, (size_t)largest->end);
    }
}

static int print(struct dp_rss *rss, const struct dp_rss_process *process, bool json)
{
    int64_t explained = dp_rss_explained(rss);
    qsort(rss->parts.at, rss->parts.n, sizeof *rss->parts.at, by_bytes);
    if (explained > rss->anonymous_bytes)
        rss->anonymous_bytes = explained; /* pages came while the mappings were read */
    if (json) {
        print_json(rss, explained);
    } else {
        print_table(rss, explained);
        if (process && !rss->is_profiled) {
            print_mappings(process);
            puts(process->self_bytes
                     ? "It has written no profile yet, since it allocated little: explained by kinds of mappings"
                     : "Not profiled, or no profile of it was found (deltaprof rss PID DIR): explained by kinds of "
                       "mappings");
        }
    }
    return dp_query_print_flush("rss");
}

/* ---- the verb --------------------------------------------------------------------------------------------------- */

static int show_process(pid_t pid, const char *directory, bool json)
{
    struct dp_rss_process process = {.pid = pid};
    struct dp_rss rss = {.parts = {0}}, then = {.parts = {0}};
    int status = dp_rss_process_read(&process, pid);
    char *profile = status ? NULL : dp_rss_profile_find(&process, directory);
    if (!status && profile)
        status = dp_rss_profile_read(&then, &profile, 1);
    if (!status && directory && !profile) {
        dp_query_print_error("rss", "%s: no heap profile of process %d since it began", directory, (int)pid);
        status = DP_EXIT_FAILED;
    }
    if (!status && !(profile ? dp_rss_combine(&process, &then, &rss) : dp_rss_process_parts(&process, &rss))) {
        dp_query_print_error("rss", "out of memory");
        status = DP_EXIT_FAILED;
    }
    if (!status)
        status = print(&rss, &process, json);
    free(profile);
    dp_rss_fini(&rss);
    dp_rss_fini(&then);
    dp_rss_process_fini(&process);
    return status;
}

static int show_profiles(char **paths, int n, bool json)
{
    struct dp_rss rss = {.parts = {0}};
    int status = dp_rss_profile_read(&rss, paths, (size_t)n);
    if (!status)
        status = print(&rss, NULL, json);
    if (!status && rss.n_skipped)
        status = DP_EXIT_FAILED;
    dp_rss_fini(&rss);
    return status;
}

/* 0: the word is not a number of a process, or a file has this name. */
static pid_t pid_of(const char *word)
{
    char *end;
    errno = 0;
    long pid = strtol(word, &end, 10);
    bool is_pid = isdigit((unsigned char)*word) && !*end && !errno && pid > 0 && pid <= INT_MAX;
    return is_pid && access(word, F_OK) ? (pid_t)pid : 0;
}

int dp_cli_rss(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'}, {0}};
    bool json = false;
    if (dp_cli_help(argc, argv, about))
        return 0;
    dp_query_files_init();
    for (int option; (option = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (option != 'j')
            return dp_query_bad_option(argv, option);
        json = true;
    }
    int n = argc - optind;
    char **words = argv + optind;
    pid_t pid = n ? pid_of(words[0]) : 0;
    if (!n || (pid && n > 2)) {
        dp_query_print_error("rss", "%s: deltaprof rss [--json] PID [DIR] | FILE...",
                             n ? "one process at a time" : "no PID or FILE given");
        return DP_EXIT_USAGE;
    }
    return pid ? show_process(pid, n > 1 ? words[1] : NULL, json) : show_profiles(words, n, json);
}
