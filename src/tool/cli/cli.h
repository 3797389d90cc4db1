/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/cli.h - the verbs of `deltaprof`, one file each.
 *
 * A verb gets its name as argv[0] and returns the exit status: 0; 1 if something could not be done; 2 for wrong usage.
 * `run` does not return on success. Errors are one line on stderr, through dp_query_print_error.
 */
#pragma once

#include <stdbool.h>

struct dp_cli_verb {
    const char *name, *arguments, *summary;
    int (*main)(int argc, char **argv);
};

int dp_cli_run(int argc, char **argv);
int dp_cli_on(int argc, char **argv);
int dp_cli_off(int argc, char **argv);
int dp_cli_set(int argc, char **argv);
int dp_cli_summary(int argc, char **argv);
int dp_cli_top(int argc, char **argv);
int dp_cli_tree(int argc, char **argv);
int dp_cli_waits(int argc, char **argv);
int dp_cli_waste(int argc, char **argv);
int dp_cli_churn(int argc, char **argv);
int dp_cli_growth(int argc, char **argv);
int dp_cli_leaks(int argc, char **argv);
int dp_cli_check(int argc, char **argv);
int dp_cli_recover(int argc, char **argv);
int dp_cli_rss(int argc, char **argv);
int dp_cli_serve(int argc, char **argv);
int dp_cli_view(int argc, char **argv);
int dp_cli_convert(int argc, char **argv);
int dp_cli_ps(int argc, char **argv);
int dp_cli_push(int argc, char **argv);
int dp_cli_timeline(int argc, char **argv);
int dp_cli_pgo(int argc, char **argv);
int dp_cli_merge(int argc, char **argv);
int dp_cli_diff(int argc, char **argv);

/* Looks in the table of main.c; NULL if the name is not a verb. */
const struct dp_cli_verb *dp_cli_verb(const char *name);

/* If argv[1] asks for help: prints the verb's usage, then text. Whether it does. */
bool dp_cli_help(int argc, char **argv, const char *text);
