/* SPDX-License-Identifier: MIT */
/* tool/cli/ps.c - `deltaprof ps`: lists the profiled processes of the user, from their tables. */
#include "base/text.h"
#include "tool/cli/cli.h"
#include "tool/cli/other_users.h"
#include "tool/query/json.h"
#include "tool/query/print.h"
#include "tool/query/units.h"
#include "tool/recover/recover.h"
#include "tool/summary/sentence_parts.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char about[] =
    "Lists the profiled processes of this user, for root of all users, that have tables (key tables): pid, age,\n"
    "sampled memory in use, the most that one stack has waited for locks, all its threads and idle ones included,\n"
    "the kinds of profile that are on (`off`: by deltaprof off; `tables are private`: they could not be in the\n"
    "tmpfs), and the program. Their PIDs can be given to top, tree, leaks, growth, waits, view and summary.\n"
    "DIR: the directory of the tables.\n"
    "  --json            one JSON object: `processes`, times in nanoseconds, sizes in bytes\n";

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

/* A process as it is shown; -1: not known. */
struct row {
    pid_t pid;
    int64_t age_ns, inuse_bytes, waited_ns;
    char kinds[64];
    const char *program, *private_for; /* why its tables are private; or NULL */
};

/* What is printed, and what was. */
struct output {
    bool is_json;
    size_t n;
};

static void print_json(const struct row *row, const char *separator)
{
    dp_query_print_json_number(separator, "pid", row->pid);
    dp_query_print_json_text(",", "program", row->program);
    if (row->age_ns >= 0)
        dp_query_print_json_number(",", "age_ns", row->age_ns);
    if (row->inuse_bytes >= 0)
        dp_query_print_json_number(",", "inuse_space", row->inuse_bytes);
    if (row->waited_ns >= 0)
        dp_query_print_json_number(",", "most_waited_ns", row->waited_ns);
    if (row->private_for)
        dp_query_print_json_text(",", "private", row->private_for);
    else
        dp_query_print_json_text(",", "kinds", row->kinds);
    putchar('}');
}

static void print_row(struct output *output, const struct row *row)
{
    char age[32] = "-", in_use[32] = "-", wait[32] = "-";
    if (output->is_json) {
        print_json(row, output->n++ ? ",\n{" : "\n{");
        return;
    }
    if (row->age_ns >= 0)
        dp_summary_sentences_time(age, sizeof age, row->age_ns);
    if (row->inuse_bytes >= 0)
        dp_query_print_unit(in_use, sizeof in_use, row->inuse_bytes, "bytes");
    if (row->waited_ns > 0)
        dp_summary_sentences_time(wait, sizeof wait, row->waited_ns);
    printf("%8d %10s %10s %12s  %-26s %s", (int)row->pid, age, in_use, wait, row->kinds, row->program);
    if (row->private_for)
        printf(" (%s)", row->private_for);
    putchar('\n');
}

static void print_process(struct output *output, const struct dp_recover_list *list, const struct dp_recover_table *t,
                          int64_t now_ns)
{
    struct deltaprof_outside_profile heap = {.inuse_bytes = -1}, block = {0};
    char why[DP_RECOVER_WHY];
    struct dp_recover *r = dp_recover_open(list->directory, t, why);
    if (!r) {
        dp_query_print_error("ps", "%s", why);
        return;
    }
    dp_recover_write(r, DP_KIND_HEAP, DELTAPROF_OUTSIDE_SINCE_START, drop_part, NULL, &heap);
    dp_recover_write(r, DP_KIND_BLOCK, DELTAPROF_OUTSIDE_SINCE_START, drop_part, NULL, &block);
    dp_recover_close(r);
    struct row row = {.pid = t->pid,
                      .age_ns = now_ns - t->begin_wall_ns,
                      .inuse_bytes = heap.inuse_bytes,
                      .waited_ns = block.worst_ns,
                      .program = t->program};
    write_kinds(t, row.kinds, sizeof row.kinds);
    print_row(output, &row);
}

static void print_private(struct output *output, const struct dp_recover_private *p, int64_t now_ns)
{
    print_row(output, &(struct row){.pid = p->pid,
                                    .age_ns = p->begin_wall_ns > 0 ? now_ns - p->begin_wall_ns : -1,
                                    .inuse_bytes = -1,
                                    .waited_ns = -1,
                                    .kinds = "tables are private",
                                    .program = p->program,
                                    .private_for = strerror(p->err)});
}

/* The processes of a directory. An exit status; errors were printed. */
static int print_directory(struct output *output, const char *directory)
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
            print_process(output, &list, &list.at[i], (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    for (size_t i = 0; i < list.private.n; i++)
        if (dp_recover_is_private(&list, &list.private.at[i]))
            print_private(output, &list.private.at[i], (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    dp_recover_list_fini(&list);
    return 0;
}

static void print_other(const char *directory, void *output)
{
    print_directory(output, directory);
}

int dp_cli_ps(int argc, char **argv)
{
    struct output output = {.is_json = argc > 1 && !strcmp(argv[1], "--json")};
    const char *directory = argc > 1 + output.is_json ? argv[argc - 1] : NULL;
    if (dp_cli_help(argc, argv, about))
        return 0;
    if (argc > 2 + output.is_json || (directory && *directory == '-')) {
        dp_query_print_error("ps", "wrong arguments: deltaprof ps %s", dp_cli_verb("ps")->arguments);
        return DP_EXIT_USAGE;
    }
    if (output.is_json)
        printf("{\"processes\":[");
    else
        printf("%8s %10s %10s %12s  %-26s %s\n", "PID", "AGE", "IN USE", "MOST WAITED", "KINDS", "PROGRAM");
    int status = print_directory(&output, directory);
    if (!status && !directory)
        dp_cli_other_users_each(print_other, &output);
    if (output.is_json)
        puts("]}");
    return dp_query_print_flush("ps") ? DP_EXIT_FAILED : status;
}
