/* SPDX-License-Identifier: MIT */
/* tool/cli/main.c - `deltaprof VERB ...`: finds the verb and runs it, or prints the list of verbs. */
#include "tool/cli/cli.h"
#include "tool/cli/live.h"
#include "tool/query/files.h"
#include "tool/query/print.h"
#include "tool/recover/recover.h"

#include <deltaprof/deltaprof.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct dp_cli_verb verbs[] = {
    {"run", "[-o KEY=VALUE[,...]]... [--dormant] [--serve ADDRESS] [--] COMMAND [ARG...]",
     "run a program with the profiler in it", dp_cli_run},
    {"on", "PID [-o KEY=VALUE[,...]]... [--wait TIME]", "turn the profiler on in a process of run --dormant",
     dp_cli_on},
    {"off", "PID [--wait TIME]", "turn it off again", dp_cli_off},
    {"set", "PID KEY=VALUE[,...] [--wait TIME]", "change rates and interval while it is on", dp_cli_set},
    {"summary", "[--json] PATH...", "say what matters most in profiles; deltaprof PATH is the same", dp_cli_summary},
    {"top", "[-n N] [--cum] [--by WHAT] [OPTION]... PATH...", "show the functions with the largest values", dp_cli_top},
    {"tree", "[--callers REGEX] [--callees REGEX] [OPTION]... PATH...", "show stacks as a tree of calls", dp_cli_tree},
    {"waits", "[-n N] [OPTION]... PATH...", "show which stacks waited for locks, and which stacks held them",
     dp_cli_waits},
    {"growth", "[-n N] [OPTION]... OLD NEW | DIR", "show the stacks that have more than before", dp_cli_growth},
    {"leaks", "[-n N] [--confidence N] [OPTION]... PATH...", "show the stacks that leak", dp_cli_leaks},
    {"check", "[--max-growth N%] [--max SIZE|TIME]... [OPTION]... [OLD] NEW", "fail if a profile exceeds a budget",
     dp_cli_check},
    {"rss", "[--json] [--no-children] PID [DIR] | PATH...", "show where the resident memory of a process went",
     dp_cli_rss},
    {"ps", "[--json] [DIR]", "list the profiled processes of the user", dp_cli_ps},
    {"recover", "[DIR]", "write the last profiles of processes that were killed", dp_cli_recover},
    {"serve", "[--listen ADDRESS] [--token FILE] [-o DIR] [--interval TIME] [--keep N] [--to URL]... [TABLES]",
     "serve the profiles of all processes at one address", dp_cli_serve},
    {"waste", "[-n N] [--json] [OPTION]... PID [DIR] | PATH...",
     "show memory that is in use for nothing, and what malloc could give back", dp_cli_waste},
    {"churn", "[-n N] [--json] [OPTION]... PATH...", "show allocations that a change of the program could save",
     dp_cli_churn},
    {"view", "PATH... [-o FILE.html]", "write an HTML page that shows profiles over time", dp_cli_view},
    {"timeline", "PATH... -o OUT", "write events as a trace for Perfetto or Firefox Profiler", dp_cli_timeline},
    {"convert", "IN -o OUT", "write a profile as OTLP, folded stacks, speedscope or pprof", dp_cli_convert},
    {"push", "DIR... --to URL [OPTION]...", "send profiles to a database as they appear", dp_cli_push},
    {"pgo", "PATH... --for clang|bolt -o FILE", "make a profile for a compiler from CPU samples", dp_cli_pgo},
    {"merge", "PATH... -o OUT", "merge many profiles into one", dp_cli_merge},
    {"diff", "OLD NEW [-o OUT] | --stream -o DIR FILE...", "write what happened between two profiles", dp_cli_diff},
};
#define N_VERBS (sizeof verbs / sizeof verbs[0])

const struct dp_cli_verb *dp_cli_verb(const char *name)
{
    for (size_t i = 0; i < N_VERBS; i++)
        if (!strcmp(verbs[i].name, name))
            return &verbs[i];
    return NULL;
}

bool dp_cli_help(int argc, char **argv, const char *text)
{
    if (argc < 2 || (strcmp(argv[1], "--help") && strcmp(argv[1], "-h")))
        return false;
    const struct dp_cli_verb *verb = dp_cli_verb(argv[0]);
    printf("usage: deltaprof %s %s\n\n%s", verb->name, verb->arguments, text);
    return true;
}

static void usage(FILE *to)
{
    fputs("usage: deltaprof VERB ...\n\n"
          "A continuous heap, lock and CPU profiler for native programs. Profiles are gzipped pprof.\n\n",
          to);
    for (size_t i = 0; i < N_VERBS; i++)
        fprintf(to, "  deltaprof %s %s\n      %s\n", verbs[i].name, verbs[i].arguments, verbs[i].summary);
    fputs("\n  PATH is a file, a directory or a glob of profiles, or the PID of a living process.\n"
          "\n  deltaprof VERB --help    shows the options of a verb, as deltaprof help VERB does\n"
          "  deltaprof --version\n\n"
          "    deltaprof run -o interval=2s,out=profiles -- redis-server\n"
          "    deltaprof profiles\n",
          to);
}

/* How many letters differ, are missing, or are swapped: enough to see what was meant. */
static size_t distance(const char *x, const char *y)
{
    enum { MOST = 24 };
    size_t n_x = strlen(x), n_y = strlen(y), rows[3][MOST + 1];
    if (n_x > MOST || n_y > MOST)
        return MOST;
    for (size_t j = 0; j <= n_y; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n_x; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= n_y; j++) {
            size_t least = above[j - 1] + (x[i - 1] != y[j - 1]);
            least = above[j] + 1 < least ? above[j] + 1 : least;
            least = row[j - 1] + 1 < least ? row[j - 1] + 1 : least;
            if (i > 1 && j > 1 && x[i - 1] == y[j - 2] && x[i - 2] == y[j - 1] && two_above[j - 2] + 1 < least)
                least = two_above[j - 2] + 1;
            row[j] = least;
        }
    }
    return rows[n_x % 3][n_y];
}

/* Also of words of other tools. */
static int refuse(const char *verb, const char *word)
{
    static const struct {
        const char *word, *meant;
    } of_others[] = {{"attach", "on PID (of a program that deltaprof run --dormant started)"},
                     {"cpu", "top --kind cpu"},
                     {"record", "run"},
                     {"report", "top"},
                     {"stat", "summary"}};
    const char *meant = NULL;
    size_t least = strlen(word) > 3 ? 3 : 2; /* farther is another word */
    for (size_t i = 0; i < sizeof of_others / sizeof *of_others; i++)
        if (!strcmp(word, of_others[i].word)) {
            meant = of_others[i].meant;
            least = 0;
        }
    for (size_t i = 0; i < N_VERBS; i++) {
        size_t d = distance(word, verbs[i].name);
        if (d < least) {
            least = d;
            meant = verbs[i].name;
        }
    }
    if (meant)
        dp_query_print_error(verb, "%s is not a verb; did you mean %s?", word, meant);
    else
        dp_query_print_error(verb, "%s is not a verb%s; deltaprof --help lists the verbs", word,
                             verb ? "" : ", and no such file");
    return DP_EXIT_USAGE;
}

/* Whether the word names profiles, so that the summary of them is wanted: a file, a directory, a glob or a process. */
static bool is_path(const char *word)
{
    return !access(word, F_OK) || strpbrk(word, "/*?[") || (*word && !word[strspn(word, "0123456789")]);
}

/* `deltaprof help [VERB]` */
static int help(int argc, char **argv)
{
    if (argc < 2) {
        usage(stdout);
        return 0;
    }
    const struct dp_cli_verb *verb = dp_cli_verb(argv[1]);
    if (!verb)
        return refuse("help", argv[1]);
    return verb->main(2, (char *[]){argv[1], (char *)"--help", NULL});
}

static int run_verb(const struct dp_cli_verb *verb, int argc, char **argv)
{
    int status = verb->main(argc, argv);
    dp_cli_live_end();
    return status;
}

static int command(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return DP_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        usage(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "help"))
        return help(argc - 1, argv + 1);
    if (!strcmp(argv[1], "--version")) {
        puts("deltaprof " DELTAPROF_VERSION "\nchanges, and what to know before an upgrade: man 7 deltaprof");
        return 0;
    }
    if (!strcmp(argv[1], "--read-tables"))
        return dp_recover_reader(argc, argv);
    const struct dp_cli_verb *verb = dp_cli_verb(argv[1]);
    if (verb)
        return run_verb(verb, argc - 1, argv + 1);
    if (!is_path(argv[1]))
        return refuse(NULL, argv[1]);
    argv[0] = (char *)"summary";
    return run_verb(dp_cli_verb("summary"), argc, argv);
}

/*
 * The one place that makes sure of two errors, of every verb and every help: text that could not be written, and a file
 * that was left out.
 */
int main(int argc, char **argv)
{
    int status = command(argc, argv);
    if (!status)
        status = dp_query_print_flush(NULL);
    return dp_query_end_command(status);
}
