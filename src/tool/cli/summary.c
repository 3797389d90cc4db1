/* SPDX-License-Identifier: MIT */
/* tool/cli/summary.c - `deltaprof summary`, also `deltaprof DIR`: prints the sentences that matter, the worst first. */
#include "tool/cli/cli.h"
#include "tool/cli/live.h"
#include "tool/cli/options.h"
#include "tool/cli/other_users.h"
#include "tool/summary/lone_thread.h"
#include "tool/summary/sentence_parts.h"
#include "tool/query/json.h"
#include "tool/query/print.h"
#include "tool/query/units.h"
#include "tool/query/files.h"
#include "tool/rss/rss.h"
#include "profile/file_name.h"

#include <errno.h>
#include <getopt.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INDENT = 4, LEAST_COLUMNS = 30, CHILDREN_NAMED = 4 };
#define LEAST_BAD     2 /* weights of sentences */
#define LEAST_WARNING 0.5

static const char about[] =
    "Says in a few sentences what matters most in the profiles, the worst first, each with the command that shows\n"
    "more: threads that will never wake or are stuck; a leak; memory that malloc holds and nobody uses, and what was\n"
    "freed since the peak; memory that is only zeros, with types=waste; the function that made other threads wait\n"
    "most; the one that used most CPU time; what the profiler lost. The last sentence is about what was in order. A\n"
    "PATH is a directory of profiles, a file or a glob.\n"
    "With PID, the profiles are those of that process, in the directory to which it writes them. `deltaprof PATH` is\n"
    "the same.\n"
    "\n"
    "  --json            one JSON object: `sentences`, and `open`, what cannot be told yet and what it needs\n"
    "  --limit BYTES     the largest size of a FILE after decompression (k M G; default 1G)\n" DP_COLOUR_HELP;

/* Prints the text in lines of at most n_columns, 0: in one; the later lines are indented. The last one is not ended. */
static void print_wrapped(char *text, size_t n_columns, int indent)
{
    dp_query_print_clean(text);
    for (size_t n_used = 0, n_words = 0; *text; n_words++) {
        size_t n = strcspn(text, " ");
        if (n_columns && n_words && n_used + 1 + n > n_columns) {
            printf("\n%*s", indent, "");
            n_used = (size_t)indent;
            n_words = 0;
        }
        printf("%s%.*s", n_words ? " " : "", (int)n, text);
        n_used += (n_words > 0) + n;
        text += n + (text[n] == ' ');
    }
}

static enum dp_query_colour colour_of(const struct dp_summary_sentence *it)
{
    return it->weight >= LEAST_BAD ? DP_COLOUR_BAD : it->weight >= LEAST_WARNING ? DP_COLOUR_WARN : DP_COLOUR_NONE;
}

static void print(struct dp_summary_sentences *s)
{
    size_t n_columns = dp_query_print_columns();
    if (n_columns && n_columns < LEAST_COLUMNS)
        n_columns = LEAST_COLUMNS;
    for (size_t i = 0; i < s->n; i++) {
        enum dp_query_colour colour = colour_of(&s->at[i]);
        fputs(colour ? dp_query_print_colour(colour) : "", stdout);
        print_wrapped(s->at[i].text, n_columns, 2);
        puts(colour ? dp_query_print_colour(DP_COLOUR_NONE) : "");
        if (!s->at[i].verb)
            continue;
        printf("%*sdeltaprof %s ", INDENT, "", s->at[i].verb);
        dp_query_print_arguments(s->paths, s->n_paths);
    }
}

/* The command that shows more, malloc'ed; NULL: no memory. */
static char *more_of(const struct dp_summary_sentences *s, const char *verb)
{
    char *text = NULL;
    size_t n;
    FILE *to = open_memstream(&text, &n);
    if (!to)
        return NULL;
    fprintf(to, "deltaprof %s", verb);
    for (size_t i = 0; i < s->n_paths; i++)
        fprintf(to, " %s", dp_query_print_word_of(s->paths[i]));
    fclose(to);
    return text;
}

static void print_json(const struct dp_summary_sentences *s)
{
    fputs("{\"sentences\":[", stdout);
    for (size_t i = 0; i < s->n; i++) {
        const struct dp_summary_sentence *it = &s->at[i];
        const char *at = NULL, *separator = "";
        char name[256], *more = NULL;
        dp_query_print_json_text(i ? ",\n{" : "\n{", "kind", it->kind);
        dp_query_print_json_text(",", "text", it->text);
        if (it->amount >= 0)
            dp_query_print_json_number(",", it->is_time ? "ns" : "bytes", it->amount);
        fputs(",\"stack\":[", stdout);
        while (it->stack != DP_STRINGS_NONE && dp_query_stacks_next(&s->stacks, it->stack, &at, name, sizeof name)) {
            fputs(separator, stdout);
            dp_query_print_json_string(name);
            separator = ",";
        }
        putchar(']');
        if (it->verb && (more = more_of(s, it->verb)))
            dp_query_print_json_text(",", "more", more);
        free(more);
        putchar('}');
    }
    fputs("],\"open\":[", stdout);
    for (size_t i = 0; i < s->n_open; i++) {
        dp_query_print_json_text(i ? ",\n{" : "\n{", "kind", s->open[i].kind);
        dp_query_print_json_text(",", "needs", s->open[i].needs);
        putchar('}');
    }
    puts("]}");
}

static bool has_profiles(const char *pattern)
{
    glob_t found;
    bool has = !glob(pattern, GLOB_NOSORT, NULL, &found);
    if (has)
        globfree(&found);
    return has;
}

/* A glob of the profiles that the process has written, malloc'ed. NULL after one line on stderr. */
static char *profiles_of(pid_t pid)
{
    struct dp_rss_process process = {.pid = pid};
    char *glob = NULL;
    if (kill(pid, 0) && errno == ESRCH) {
        dp_query_print_error("summary", "%d: no file, and no process with this number", (int)pid);
    } else if (!dp_rss_process_read(&process, pid, "summary")) {
        if (!*process.out)
            dp_rss_beacon_read(&process);
        if (!*process.out)
            dp_query_print_error("summary", "process %d is not profiled, or writes no files", (int)pid);
        else if (asprintf(&glob, "%s/*.%d.*.pb.gz", process.out, (int)pid) < 0 || !has_profiles(glob)) {
            dp_query_print_error("summary",
                                 "process %d has written no profile in %s: it allocated little, its first interval is "
                                 "not over, or the directory is not its user's",
                                 (int)pid, process.out);
            free(glob);
            glob = NULL;
        }
    }
    dp_rss_process_fini(&process);
    return glob;
}

/* Whether the only path is a directory without profiles, and a sentence says whose are missing. */
static bool is_all_missing(const struct dp_summary_sentences *s, char **paths, int n)
{
    char pattern[PATH_MAX];
    snprintf(pattern, sizeof pattern, "%s/*" DP_PROFILE_SUFFIX, paths[0]);
    return s->n && n == 1 && !has_profiles(pattern);
}

static bool is_profiled(pid_t pid)
{
    char line[PATH_MAX + 128];
    bool found = false;
    FILE *maps = dp_rss_process_open(pid, "maps");
    while (maps && !found && fgets(line, sizeof line, maps))
        found = strstr(line, "/libdeltaprof") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

/* The master of a server may do nothing itself: says which of its children are profiled. */
static void say_children(struct dp_summary_sentences *s, pid_t pid)
{
    struct dp_rss_family family = {.at = {0}};
    char names[256] = "";
    size_t n = 0, n_text = 0;
    bool is_found = dp_rss_family_find(&family, pid, true);
    for (size_t i = 1; is_found && i < family.at.n; i++) {
        const struct dp_rss_member *child = &family.at.at[i];
        if (!is_profiled(child->pid))
            continue;
        if (n++ < CHILDREN_NAMED)
            n_text += (size_t)snprintf(names + n_text, sizeof names - n_text, "%s%s %d", n > 1 ? ", " : "", child->name,
                                       (int)child->pid);
    }
    if (n > CHILDREN_NAMED)
        snprintf(names + n_text, sizeof names - n_text, ", %zu more", n - CHILDREN_NAMED);
    struct dp_summary_sentence *to = n ? dp_summary_sentences_add(s, "children", 0.15) : NULL;
    if (to)
        snprintf(to->text, sizeof to->text,
                 "Without its %zu profiled child%s (%s): the directory of their profiles shows all, PID one.", n,
                 n == 1 ? "" : "ren", names);
    dp_rss_family_fini(&family);
}

/* Shows what was found. What the process itself shows stands, even if its profiles cannot be read. */
static int show(struct dp_summary_sentences *s, int status, bool json)
{
    if (!status || s->n) {
        (json ? print_json((const struct dp_summary_sentences *)s) : print(s));
        status = dp_query_print_flush("summary");
    }
    return status;
}

int dp_cli_summary(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"limit", required_argument, NULL, 'l'}, DP_COLOUR_OPTION('c'), {0}};
    struct dp_summary_sentences s = {.verb = "summary", .limit_bytes = DP_DECODE_LIMIT};
    bool json = false;
    char *glob = NULL;
    if (dp_cli_help(argc, argv, about))
        return 0;
    dp_query_files_init();
    for (int option; (option = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (option == 'j')
            json = true;
        else if (option != 'l' && option != 'c')
            return dp_query_bad_option(argv, option);
        else if (option == 'c' && dp_query_print_colour_option("summary", optarg))
            return DP_EXIT_USAGE;
        else if (option == 'c')
            continue;
        else if (dp_query_limit("summary", optarg, &s.limit_bytes))
            return DP_EXIT_USAGE;
    }
    if (optind == argc) {
        dp_query_print_error("summary", "no profiles given: deltaprof summary PATH...");
        return DP_EXIT_USAGE;
    }
    pid_t pid = argc - optind == 1 ? dp_cli_options_pid(argv[optind]) : 0;
    if (pid) {
        dp_summary_lone_thread(&s, pid);
        dp_cli_other_users_say_of(&s, pid);
        say_children(&s, pid);
    }
    int status = dp_cli_live_begin("summary", argv + optind, argc - optind);
    dp_cli_other_users_say(&s, argv + optind, argc - optind);
    bool is_empty = is_all_missing(&s, argv + optind, argc - optind);
    s.paths = argv + optind;
    s.n_paths = (size_t)(argc - optind);
    pid = !status && s.n_paths == 1 ? dp_cli_options_pid(s.paths[0]) : 0;
    if (pid && (glob = profiles_of(pid)))
        s.paths = &glob;
    else if (pid)
        status = DP_EXIT_FAILED;
    if (!status && !is_empty)
        status = dp_summary_sentences_find(&s);
    status = show(&s, status, json);
    dp_summary_sentences_fini(&s);
    free(glob);
    return status;
}
