/* SPDX-License-Identifier: MIT */
/* tool/cli/rss.c - `deltaprof rss`: says of which parts the resident memory of a process consists. */
#include "tool/rss/rss.h"

#include "tool/query/at.h"
#include "tool/cli/cli.h"
#include "tool/cli/live.h"
#include "tool/cli/options.h"
#include "tool/query/print.h"
#include "tool/query/files.h"
#include "tool/query/json.h"
#include "tool/query/units.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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
    "they are brought up to date by /proc/PID/smaps and, for malloc, by the tables of the process (tables=), which "
    "are\n"
    "read without its help; if it has none, the row says how old the profile is. The profiles of PID are read from "
    "the\n"
    "directory to which it writes them, or from DIR. The memory of a process that is not profiled is divided by kind "
    "of mapping. Shared\n"
    "memory and pages of files are not anonymous, and are shown separately. The children of PID are added, so that\n"
    "the master of a server stands for all its workers.\n"
    "\n"
    "  --no-children     only PID itself\n"
    "  --json            one JSON object; sizes are bytes\n";

enum { MAPPINGS_SHOWN = 5, PROCESSES_SHOWN = 20 };
#define UNEXPLAINED_SHARE 0.1       /* from this share on, mappings are listed */
#define UNEXPLAINED_LEAST (1 << 20) /* bytes */
#define FRESH_NS          2000000000

/* ---- output ----------------------------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
    int64_t x = ((const struct dp_rss_part *)a)->bytes, y = ((const struct dp_rss_part *)b)->bytes;
    return (x < y) - (x > y);
}

static void print_json(const struct dp_rss *rss, const struct dp_rss_family *family, int64_t explained)
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
    for (size_t i = 0; family && family->at.n > 1 && i < family->at.n; i++) {
        const struct dp_rss_member *member = &family->at.at[i];
        dp_query_print_json_number(i ? ",\n{" : "],\"processes\":[\n{", "pid", member->pid);
        dp_query_print_json_text(",", "name", member->name);
        dp_query_print_json_number(",", "anonymous_bytes", member->anonymous_bytes);
        dp_query_print_json_number(",", "explained_bytes", member->explained_bytes);
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

/* What is behind the bytes in use: " (sampled, +-1.50MB, 12s old)". */
static void describe_source(char text[96], const struct dp_rss *rss, bool is_now)
{
    char error[32], age[32];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t age_ns = now.tv_sec * 1000000000LL + now.tv_nsec - rss->time_ns;
    bool is_old = is_now && rss->time_ns && age_ns > FRESH_NS;
    dp_query_print_unit(error, sizeof error, rss->error_bytes, "bytes");
    dp_query_print_unit(age, sizeof age, age_ns / 100000000 * 100000000, "nanoseconds");
    snprintf(text, 96, "%s%s%s%s%s%s%s", rss->error_bytes || is_old ? " (" : "", rss->error_bytes ? "sampled, +-" : "",
             rss->error_bytes ? error : "", rss->error_bytes && is_old ? "; " : "", is_old ? "as it was " : "",
             is_old ? age : "",
             is_old             ? " ago)"
             : rss->error_bytes ? ")"
                                : "");
}

/* family: NULL for profiles, whose parts are those of their own time. */
static void print_table(const struct dp_rss *rss, const struct dp_rss_family *family, int64_t explained)
{
    char total[32], part[32], source[96] = "", when[64], of[48] = "";
    dp_query_print_unit(total, sizeof total, rss->anonymous_bytes, "bytes");
    dp_query_print_unit(part, sizeof part, explained, "bytes");
    size_t n_processes = family ? family->at.n : rss->n_profiles;
    if (n_processes > 1)
        snprintf(of, sizeof of, " of %zu processes", n_processes);
    printf("Anonymous resident memory%s: %s, explained: %s (%.1f%%)\n", of, total, part,
           rss->anonymous_bytes ? 100.0 * (double)explained / (double)rss->anonymous_bytes : 100);
    if (rss->time_ns && !family) {
        dp_query_at_text(when, sizeof when, rss->time_ns);
        printf(n_processes > 1 ? "malloc's share is that of the newest profile of each, the last of %s\n"
                               : "malloc's share is that of the profile of %s\n",
               when);
    }
    describe_source(source, rss, family);
    for (size_t i = 0; i < rss->parts.n; i++)
        print_line(rss, rss->parts.at[i].bytes, rss->parts.at[i].name,
                   strcmp(rss->parts.at[i].name, DP_RSS_IN_USE) ? "" : source);
    if (rss->anonymous_bytes - explained >= 1024)
        print_line(rss, rss->anonymous_bytes - explained, "not explained", "");
    print_beside("allocated, but never touched: not resident", rss->absent_bytes);
    print_beside("pages of files, not anonymous", rss->file_bytes);
    print_beside("shared memory, not anonymous", rss->shared_bytes);
    print_beside("in swap", rss->swap_bytes);
}

/* The largest mappings that may be what no part explains. */
static void print_mappings(const struct dp_rss_process *p, bool is_profiled)
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
            puts(is_profiled ? "The largest mappings: malloc's, or the program's own, which profiles show with mmap=on"
                             : "The largest mappings that are not explained: an allocator's, or the program's own");
        printf("%10s         %zx-%zx\n", text, (size_t)largest->start, (size_t)largest->end);
    }
}

static int by_anonymous(const void *a, const void *b)
{
    int64_t x = ((const struct dp_rss_member *)a)->anonymous_bytes,
            y = ((const struct dp_rss_member *)b)->anonymous_bytes;
    return (x < y) - (x > y);
}

/* The process itself, then its children, the largest first. */
static void print_family(struct dp_rss_family *family)
{
    size_t n = family->at.n, n_shown = n < PROCESSES_SHOWN ? n : PROCESSES_SHOWN;
    if (n < 2)
        return;
    qsort(family->at.at + 1, n - 1, sizeof *family->at.at, by_anonymous);
    puts("Of the processes, each with the pages that a fork still shares:");
    for (size_t i = 0; i < n_shown; i++) {
        const struct dp_rss_member *member = &family->at.at[i];
        char bytes[32];
        dp_query_print_unit(bytes, sizeof bytes, member->anonymous_bytes, "bytes");
        printf("%10s         ", bytes);
        dp_query_print_name(stdout, member->name, 0);
        printf(" %d\n", (int)member->pid);
    }
    if (n_shown < n)
        printf("%10s         %zu more\n", "", n - n_shown);
}

/* in_use_bytes: of malloc, by the tables of the process; 0: not known. */
static void print_without_profile(const struct dp_rss_process *process, int64_t in_use_bytes)
{
    char text[32];
    if (!process->self_bytes) {
        puts("Not profiled, or no profile of it was found (deltaprof rss PID DIR): explained by kinds of mappings");
        return;
    }
    dp_query_print_unit(text, sizeof text, in_use_bytes, "bytes");
    printf("It has written no heap profile%s%s: its first interval is not over, it allocated little, or its log says\n"
           "why. Explained by kinds of mappings",
           *process->out ? " in " : " yet", process->out);
    if (in_use_bytes)
        printf("; malloc has %s in use", text);
    putchar('\n');
}

/* process, family: NULL for profiles; process also for several processes. */
static int print(struct dp_rss *rss, const struct dp_rss_process *process, struct dp_rss_family *family, bool json)
{
    int64_t explained = dp_rss_explained(rss);
    qsort(rss->parts.at, rss->parts.n, sizeof *rss->parts.at, by_bytes);
    if (explained > rss->anonymous_bytes)
        rss->anonymous_bytes = explained; /* pages came while the mappings were read */
    if (json) {
        print_json(rss, family, explained);
    } else {
        int64_t missing = rss->anonymous_bytes - explained;
        print_table(rss, family, explained);
        if (family)
            print_family(family);
        if (process && rss->is_profiled && missing >= UNEXPLAINED_LEAST &&
            (double)missing >= UNEXPLAINED_SHARE * (double)rss->anonymous_bytes)
            print_mappings(process, true);
        if (process && !rss->is_profiled) {
            print_mappings(process, false);
            print_without_profile(process, rss->grown_bytes);
        }
    }
    return dp_query_print_flush("rss");
}

/* ---- the verb --------------------------------------------------------------------------------------------------- */

static int out_of_memory(void)
{
    dp_query_print_error("rss", "out of memory");
    return DP_EXIT_FAILED;
}

/*
 * Divides the memory of one process, by its newest profile and by its tables, which are read just before its mappings.
 * Without tables the profile may be old.
 */
static int read_process(struct dp_rss_process *process, struct dp_rss *rss, pid_t pid, const char *directory)
{
    struct dp_rss then = {.parts = {0}};
    char number[24], *tables = number;
    snprintf(number, sizeof number, "%d", (int)pid);
    if (dp_cli_live_replace("rss", &tables, pid) < 0) /* a line says why they cannot be read */
        tables = number;
    int status = dp_rss_process_read(process, pid, "rss");
    char *profile = status ? NULL : dp_rss_profile_find(process, directory, true);
    char *now = !status && tables != number ? dp_rss_profile_find(process, tables, false) : NULL;
    if (!status && profile)
        status = dp_rss_profile_read(&then, &profile, 1);
    if (!status && now)
        status = dp_rss_profile_grow(&then, profile, now);
    dp_cli_live_end();
    if (!status && directory && !profile) {
        dp_query_print_error("rss", "%s: no heap profile of process %d since it began", directory, (int)pid);
        status = DP_EXIT_FAILED;
    }
    if (!status && !(profile ? dp_rss_combine(process, &then, rss) : dp_rss_process_parts(process, rss)))
        status = out_of_memory();
    if (!profile)
        rss->grown_bytes = then.grown_bytes;
    free(profile);
    free(now);
    dp_rss_fini(&then);
    return status;
}

/* Whether a child is still there: it may have ended since it was found. */
static bool lives(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    return !access(path, F_OK);
}

static int show_process(pid_t pid, const char *directory, bool with_children, bool json)
{
    struct dp_rss_process process = {.pid = pid};
    struct dp_rss_family family = {.at = {0}};
    struct dp_rss all = {.file_bytes = 0};
    int status = dp_rss_family_find(&family, pid, with_children) ? 0 : out_of_memory();
    size_t n = 0;
    for (size_t i = 0; i < family.at.n && !status; i++) {
        struct dp_rss_member *member = &family.at.at[i];
        struct dp_rss rss = {.parts = {0}};
        if (i && !lives(member->pid))
            continue;
        dp_rss_process_fini(&process);
        process = (struct dp_rss_process){.pid = member->pid};
        status = read_process(&process, &rss, member->pid, i ? NULL : directory);
        if (status && i) {
            status = 0; /* it has ended, as the line says */
            continue;
        }
        if (!status && !dp_rss_family_add(&all, &rss))
            status = out_of_memory();
        member->anonymous_bytes = rss.anonymous_bytes;
        member->explained_bytes = dp_rss_explained(&rss);
        dp_rss_fini(&rss);
        family.at.at[n++] = *member;
    }
    family.at.n = n;
    if (!status)
        status = print(&all, n == 1 ? &process : NULL, &family, json);
    dp_rss_fini(&all);
    dp_rss_family_fini(&family);
    dp_rss_process_fini(&process);
    return status;
}

static int show_profiles(char **paths, int n, bool json)
{
    struct dp_rss rss = {.parts = {0}};
    int status = dp_rss_profile_read(&rss, paths, (size_t)n);
    if (!status)
        status = print(&rss, NULL, NULL, json);
    dp_rss_fini(&rss);
    return status;
}

int dp_cli_rss(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"no-children", no_argument, NULL, 'n'}, {0}};
    bool json = false, with_children = true;
    if (dp_cli_help(argc, argv, about))
        return 0;
    dp_query_files_init();
    for (int option; (option = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (option != 'j' && option != 'n')
            return dp_query_bad_option(argv, option);
        json |= option == 'j';
        with_children &= option != 'n';
    }
    int n = argc - optind;
    char **words = argv + optind;
    pid_t pid = n ? dp_cli_options_pid(words[0]) : 0;
    if (!n || (pid && n > 2)) {
        dp_query_print_error("rss", "%s: deltaprof rss [--json] PID [DIR] | FILE...",
                             n ? "one process at a time" : "no PID or FILE given");
        return DP_EXIT_USAGE;
    }
    return pid ? show_process(pid, n > 1 ? words[1] : NULL, with_children, json) : show_profiles(words, n, json);
}
