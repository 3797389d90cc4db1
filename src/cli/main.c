/* SPDX-License-Identifier: MIT */
/* cli/main.c - `deltaprof VERB ...`: finds the verb and runs it, or prints the list of verbs. */
#include "cli/cli.h"
#include "cli/units.h"

#include <deltaprof/deltaprof.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct dp_cli_verb verbs[] = {
    {"run", "[-o KEY=VALUE[,...]]... [--] COMMAND [ARG...]", "run a program with the profiler in it", dp_cli_run},
    {"top", "[-n N] [--cum] [--by WHAT] [OPTION]... PATH...", "show which functions have most of a profile",
     dp_cli_top},
    {"tree", "[--callers REGEX] [--callees REGEX] [OPTION]... PATH...", "show who calls whom", dp_cli_tree},
    {"growth", "[-n N] [OPTION]... OLD NEW | DIR", "show which stacks have more than before", dp_cli_growth},
    {"leaks", "[-n N] [--confidence N] [OPTION]... PATH...", "say which stacks leak", dp_cli_leaks},
    {"check", "--max-growth N% [OPTION]... OLD NEW", "fail where there is more than a budget allows", dp_cli_check},
    {"view", "PATH... [-o FILE.html]", "one HTML page that shows profiles over time", dp_cli_view},
    {"merge", "PATH... -o OUT", "many profiles as one", dp_cli_merge},
    {"diff", "OLD NEW [-o OUT] | --stream -o DIR FILE...", "what happened between two profiles", dp_cli_diff},
};
#define N_VERBS (sizeof verbs / sizeof verbs[0])

const struct dp_cli_verb *dp_cli_verb(const char *name)
{
    for (size_t i = 0; i < N_VERBS; i++)
        if (!strcmp(verbs[i].name, name))
            return &verbs[i];
    return NULL;
}

void dp_cli_error(const char *verb, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *line;
    if (vasprintf(&line, format, args) >= 0) {
        dp_cli_clean(line);
        fprintf(stderr, verb ? "deltaprof %s: %s\n" : "deltaprof%s: %s\n", verb ? verb : "", line);
        free(line);
    }
    va_end(args);
}

int dp_cli_help(int argc, char **argv, const char *text)
{
    if (argc < 2 || (strcmp(argv[1], "--help") && strcmp(argv[1], "-h")))
        return 0;
    const struct dp_cli_verb *verb = dp_cli_verb(argv[0]);
    printf("usage: deltaprof %s %s\n\n%s", verb->name, verb->arguments, text);
    return 1;
}

static void usage(FILE *to)
{
    fputs("usage: deltaprof VERB ...\n\n"
          "A continuous heap, mutex and block profiler for native programs. Profiles are gzipped pprof.\n\n",
          to);
    for (size_t i = 0; i < N_VERBS; i++)
        fprintf(to, "  deltaprof %s %s\n      %s\n", verbs[i].name, verbs[i].arguments, verbs[i].summary);
    fputs("\n  deltaprof VERB --help    more about one, as deltaprof help VERB\n"
          "  deltaprof --version\n\n"
          "    deltaprof run -o interval=2s,out=profiles -- redis-server\n"
          "    deltaprof top profiles\n",
          to);
}

/* `deltaprof help [VERB]` */
static int help(int argc, char **argv)
{
    if (argc < 2) {
        usage(stdout);
        return 0;
    }
    const struct dp_cli_verb *verb = dp_cli_verb(argv[1]);
    if (!verb) {
        dp_cli_error("help", "%s is no verb; deltaprof --help names them", argv[1]);
        return DP_CLI_USAGE;
    }
    return verb->main(2, (char *[]){argv[1], (char *)"--help", NULL});
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return DP_CLI_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        usage(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "help"))
        return help(argc - 1, argv + 1);
    if (!strcmp(argv[1], "--version")) {
        puts("deltaprof " DELTAPROF_VERSION);
        return 0;
    }
    const struct dp_cli_verb *verb = dp_cli_verb(argv[1]);
    if (!verb) {
        dp_cli_error(NULL, "%s is no verb; deltaprof --help names them", argv[1]);
        return DP_CLI_USAGE;
    }
    return verb->main(argc - 1, argv + 1);
}
