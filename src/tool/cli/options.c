/* SPDX-License-Identifier: MIT */
/* tool/cli/options.c - one loop over getopt_long for the verbs that write one file. */
#include "tool/cli/options.h"

#include "tool/query/print.h"
#include "tool/query/files.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST = 6, OWN = 256 }; /* values of the verb's own options, behind all letters */

int dp_cli_options_read(int argc, char **argv, const struct dp_cli_option *own, struct dp_cli_output *output)
{
    struct option options[MOST + 2] = {{"limit", required_argument, NULL, 'l'}};
    for (int i = 0; i < MOST && own[i].name; i++)
        options[1 + i] = (struct option){own[i].name, own[i].text ? required_argument : no_argument, NULL, OWN + i};
    *output = (struct dp_cli_output){.limit_bytes = DP_DECODE_LIMIT};
    dp_query_files_init();
    for (int option; (option = getopt_long(argc, argv, ":o:", options, NULL)) != -1;) {
        if (option == 'o')
            output->path = optarg;
        else if (option >= OWN && own[option - OWN].text)
            *own[option - OWN].text = optarg;
        else if (option >= OWN)
            *own[option - OWN].is_on = true;
        else if (option != 'l')
            return dp_query_bad_option(argv, option);
        else if (dp_query_limit(argv[0], optarg, &output->limit_bytes))
            return DP_EXIT_USAGE;
    }
    return 0;
}

int dp_cli_options_count(const char *verb, const char *option, size_t *n)
{
    char *end;
    *n = strtoul(optarg, &end, 10);
    if (isdigit((unsigned char)*optarg) && !*end)
        return 0;
    dp_query_print_error(verb, "%s %s is not a number", option, optarg);
    return DP_EXIT_USAGE;
}

pid_t dp_cli_options_process(const char *word)
{
    char *end;
    errno = 0;
    long pid = strtol(word, &end, 10);
    return isdigit((unsigned char)*word) && !*end && !errno && pid > 0 && pid <= INT_MAX ? (pid_t)pid : 0;
}

pid_t dp_cli_options_pid(const char *word)
{
    return access(word, F_OK) ? dp_cli_options_process(word) : 0;
}
