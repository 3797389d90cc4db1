/* SPDX-License-Identifier: MIT */
/*
 * tool/query/filter.c - compiles the user's regular expressions: those of options, and lists in files, one a line. The
 * list $XDG_CONFIG_HOME/deltaprof/fold is read by all verbs that fold functions.
 */
#include "tool/query/print.h"
#include "tool/query/query.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NESTED_MAX = 200 }; /* libc's compiler of regular expressions calls itself for each bracket */

int dp_query_filter(struct dp_query *v, int which, const char *name, const char *text)
{
    char why[128];
    if (v->has_filter[which]) {
        dp_query_print_error(v->verb, "%s may be given once; A|B matches both", name);
        return DP_EXIT_USAGE;
    }
    int depth = 0;
    for (const char *at = text; *at; at++)
        if (depth += (*at == '(') - (*at == ')'), depth > NESTED_MAX) {
            dp_query_print_error(v->verb, "%s: brackets may be nested %d times", name, NESTED_MAX);
            return DP_EXIT_USAGE;
        }
    int err = regcomp(&v->filters[which], text, REG_EXTENDED | REG_NOSUB);
    if (err) {
        regerror(err, &v->filters[which], why, sizeof why);
        dp_query_print_error(v->verb, "%s %s: %s", name, text, why);
        return DP_EXIT_USAGE;
    }
    v->has_filter[which] = true;
    return 0;
}

/* One REGEX a line; empty lines and those that begin with # are skipped. */
static int take_file(struct dp_query *v, int which, const char *name, FILE *from)
{
    enum { FILE_MAX = 64 << 10 };
    char line[1024], *all = calloc(1, FILE_MAX);
    size_t n = 0, n_line;
    int status = all ? 0 : DP_EXIT_FAILED;
    if (!all)
        dp_query_print_error(v->verb, "out of memory");
    while (!status && fgets(line, sizeof line, from)) {
        bool is_whole = strchr(line, '\n') || feof(from);
        line[n_line = strcspn(line, "\r\n")] = '\0';
        if (is_whole && (!n_line || *line == '#'))
            continue;
        if (!is_whole || n + n_line + 4 > FILE_MAX) {
            dp_query_print_error(
                v->verb, "%s: a line is longer than 1000 bytes or has a zero byte, or the file is over 64 kB", name);
            status = DP_EXIT_USAGE;
        } else {
            n += (size_t)snprintf(all + n, FILE_MAX - n, "%s(%s)", n ? "|" : "", line);
        }
    }
    if (!status && ferror(from)) { /* a directory */
        dp_query_print_error(v->verb, "%s: %s", name, strerror(errno));
        status = DP_EXIT_USAGE;
    }
    if (!status && n)
        status = dp_query_filter(v, which, name, all);
    free(all);
    return status;
}

int dp_query_filter_fold(struct dp_query *v, const char *text)
{
    char name[256];
    if (*text != '@')
        return dp_query_filter(v, DP_QUERY_FOLD, "--fold", text);
    snprintf(name, sizeof name, "--fold %s", text);
    FILE *from = fopen(text + 1, "re");
    if (!from) {
        dp_query_print_error(v->verb, "%s: %s", name, strerror(errno));
        return DP_EXIT_USAGE;
    }
    int status = take_file(v, DP_QUERY_FOLD, name, from);
    fclose(from);
    return status;
}

int dp_query_filter_list(struct dp_query *v)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char name[PATH_MAX];
    int n;
    if (config && *config == '/')
        n = snprintf(name, sizeof name, "%s/deltaprof/fold", config);
    else
        n = snprintf(name, sizeof name, "%s/.config/deltaprof/fold", home ? home : "");
    FILE *from = n < (int)sizeof name && *name == '/' ? fopen(name, "re") : NULL;
    if (!from)
        return 0;
    int status = take_file(v, DP_QUERY_FOLD_LIST, name, from);
    fclose(from);
    return status;
}
