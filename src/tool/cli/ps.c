/* SPDX-License-Identifier: MIT */
/* tool/cli/ps.c - `deltaprof ps`: lists the profiled processes of the user, from their tables. */
#include "base/text.h"
#include "tool/cli/cli.h"
#include "tool/cli/other_users.h"
#include "tool/query/print.h"
#include "tool/query/units.h"
#include "tool/recover/recover.h"
#include "tool/summary/sentence_parts.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char about[] =
    "Lists the profiled processes of this user, for root of all users, that have tables (key tables): pid, age, "
    "sampled memory in use, the "
    "kinds\n"
    "of profile that are on (`off`: by deltaprof off; `tables are private`: they could not be in the tmpfs), the most\n"
    "that one stack has waited for locks, all its threads and idle ones included, and the program. Their PIDs\n"
    "can be given to top, tree, leaks, growth, waits, view and summary. DIR: the directory of the tables.\n";

/* The kinds that are on, by their names. */
static void write_kinds(const struct dp_recover_table *t, char *text, size_t n_bytes)
{
    size_t n = 0;
    text[0] = '\0';
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        if (t->samples[kind])
            n += dp_text_format(text + n, n_bytes - n, "%s%s", n ? "," : "", dp_kind_table[kind].name);
    if (!n)
        dp_text_format(text, n_bytes, t->is_off ? "off" : "-");
}

static int drop_part(void *ctx, const void *bytes, size_t n_bytes)
{
    (void)ctx, (void)bytes, (void)n_bytes;
    return 0;
}

static void print_process(const struct dp_recover_list *list, const struct dp_recover_table *t, int64_t now_ns)
{
    struct deltaprof_outside_profile heap = {.inuse_bytes = -1}, block = {0};
    char why[DP_RECOVER_WHY], kinds[64], age[32], in_use[32] = "-", wait[32] = "-";
    struct dp_recover *r = dp_recover_open(list->directory, t, why);
    if (!r) {
        dp_query_print_error("ps", "%s", why);
        return;
    }
    dp_recover_write(r, DP_KIND_HEAP, DELTAPROF_OUTSIDE_SINCE_START, drop_part, NULL, &heap);
    dp_recover_write(r, DP_KIND_BLOCK, DELTAPROF_OUTSIDE_SINCE_START, drop_part, NULL, &block);
    dp_recover_close(r);
    write_kinds(t, kinds, sizeof kinds);
    dp_summary_sentences_time(age, sizeof age, now_ns - t->begin_wall_ns);
    if (heap.inuse_bytes >= 0)
        dp_query_print_unit(in_use, sizeof in_use, heap.inuse_bytes, "bytes");
    if (block.worst_ns > 0)
        dp_summary_sentences_time(wait, sizeof wait, block.worst_ns);
    printf("%8d %10s %10s %12s  %-26s %s\n", (int)t->pid, age, in_use, wait, kinds, t->program);
}

static void print_private(const struct dp_recover_private *p, int64_t now_ns)
{
    char age[32] = "-";
    if (p->begin_wall_ns > 0)
        dp_summary_sentences_time(age, sizeof age, now_ns - p->begin_wall_ns);
    printf("%8d %10s %10s %12s  %-26s %s (%s)\n", (int)p->pid, age, "-", "-", "tables are private", p->program,
           strerror(p->err));
}

/* The processes of a directory. An exit status; errors were printed. */
static int print_directory(const char *directory)
{
    struct dp_recover_list list;
    struct timespec now;
    char why[DP_RECOVER_WHY] = "";
    if (dp_recover_list(directory, &list, why)) {
        dp_query_print_error("ps", "%s", why);
        return DP_EXIT_FAILED;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    for (size_t i = 0; i < list.n; i++)
        if (list.at[i].state == DP_RECOVER_LIVES)
            print_process(&list, &list.at[i], (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    for (size_t i = 0; i < list.private.n; i++)
        if (!dp_recover_find(&list, list.private.at[i].pid))
            print_private(&list.private.at[i], (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    dp_recover_list_fini(&list);
    return 0;
}

static void print_other(const char *directory, void *unused)
{
    (void)unused;
    print_directory(directory);
}

int dp_cli_ps(int argc, char **argv)
{
    if (dp_cli_help(argc, argv, about))
        return 0;
    if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
        dp_query_print_error("ps", "wrong arguments: deltaprof ps %s", dp_cli_verb("ps")->arguments);
        return DP_EXIT_USAGE;
    }
    printf("%8s %10s %10s %12s  %-26s %s\n", "PID", "AGE", "IN USE", "MOST WAITED", "KINDS", "PROGRAM");
    int status = print_directory(argc == 2 ? argv[1] : NULL);
    if (!status && argc == 1)
        dp_cli_other_users_each(print_other, NULL);
    return status;
}
