/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/options.h - reads the options of verbs that write one file (-o OUT, --limit BYTES, and options of their
 * own), and words that several verbs take: counts and numbers of processes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* An option of the verb's own, --NAME. */
struct dp_cli_option {
    const char *name;  /* NULL ends the list */
    const char **text; /* gets the value; NULL: it takes none */
    bool *is_on;       /* of one without a value */
};

struct dp_cli_output {
    const char *path;   /* -o; NULL: not given */
    size_t limit_bytes; /* --limit, or its default */
};

/*
 * Begins a verb that reads profiles, and reads its options; optind is then its first argument. 0, or DP_EXIT_USAGE
 * after one line.
 */
int dp_cli_options_read(int argc, char **argv, const struct dp_cli_option *own, struct dp_cli_output *output);

/* Reads optarg, a count, which `option` of the verb has. 0, or DP_EXIT_USAGE after one line. */
int dp_cli_options_count(const char *verb, const char *option, size_t *n);

/* The number of a process that the word is; 0: it is none. */
pid_t dp_cli_options_process(const char *word);
/* The same; 0 also if a file has this name. */
pid_t dp_cli_options_pid(const char *word);
