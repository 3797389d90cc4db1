/* SPDX-License-Identifier: MIT */
/*
 * tool/cli/check.c - `deltaprof check`: budgets, for CI.
 *
 * A heap profile may contain the exact number of bytes that its process allocated. If both sides have it, and no filter
 * is used, these numbers are compared. Otherwise sums of samples are compared, which vary by chance: a block of s bytes
 * that is sampled with probability p adds a variance of s^2 (1 - p) / p to a sum. A budget is broken if it is exceeded
 * by more than CERTAIN standard deviations; if it is exceeded by less, the answer is "not sure". Memory in use is that
 * of the peak on both sides.
 *
 * Totals of CPU time are exact: they are those of the threads' clocks. Of a part of the stacks, n samples tell the time
 * with a standard deviation of the square root of n samples.
 */
#include "tool/cli/cli.h"
#include "tool/cli/growth.h"
#include "tool/cli/live.h"
#include "tool/summary/leaks.h"
#include "tool/query/json.h"
#include "tool/query/print.h"
#include "tool/query/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CERTAIN 4.0 /* one in thirty thousand checks of equal programs is wrong */
/* from this part on a budget counts as exceeded: allocations at the start of a program dilute its growth */
#define REACHED 0.98
#define CORES   "cores" /* a budget of CPU time by time, and its unit */
enum { STACKS_SHOWN = 3, FRAMES_SHOWN = 6, BUDGETS_MAX = 16 };

static const char about[] =
    "Compares profiles with budgets. NEW and OLD are a profile, a directory of profiles, or the PID of a living\n"
    "process; each is read as top reads it, but memory in use is that of the peak. Budgets may be given several\n"
    "times. Exit status: 0 if all are kept; 1 if one is exceeded; 2 for wrong options, input that cannot be read, or\n"
    "nothing to compare; 3 if a sum is over its budget, but by no more than chance makes in samples.\n"
    "\n"
    "The total of alloc_space is exact, because heap profiles have it in addition to their samples, and those of cpu\n"
    "and wall are exact, because these profiles sum to the threads' clocks and lives. Totals of other types are\n"
    "estimates, and so are all totals with --label, --no-idle, --focus, --ignore, --hide or --at. All values of\n"
    "profiles that were made with heap_rate=1 are exact.\n"
    "\n"
    "  --max-growth [TYPE=]N%\n"
    "                    NEW may have up to N % more than OLD. It fails from 98 % of the budget on, because\n"
    "                    allocations at the start of a program dilute growth. 0: no growth at all. The type is that\n"
    "                    of --type, or alloc_space for heap profiles, and delay for others\n"
    "  --max [TYPE=]SIZE|TIME\n"
    "                    NEW may have up to so much: of inuse_space if it is a size (k M G), of delay if it is a time\n"
    "                    (ns us ms s m h). `leaks=SIZE`: that what leaks shows may have in use. `cpu=TIME`: CPU time;\n"
    "                    `wall=TIME`: time of all threads, of --label state=lock for example; `cores=N`: CPU time\n"
    "                    by the time that NEW covers, such as 1.5\n"
    "  --lenient         exit with 0 instead of 3\n" DP_QUERY_HELP_TYPE DP_QUERY_HELP_LABEL DP_QUERY_HELP_IDLE
        DP_QUERY_HELP_STACKS DP_QUERY_HELP_AT DP_QUERY_HELP_INHERITED
    "  --json            one JSON object, with the exit status as `status`\n" DP_QUERY_HELP_LIMIT;

struct budget {
    char type[64]; /* "": the usual one */
    bool is_growth;
    double limit; /* in percent, bytes or ns */
};

/* What came of a budget. */
struct result {
    int status;
    char type[64], unit[32];
    double before, after, percent, noise; /* noise: what sampling alone makes, CERTAIN standard deviations */
};

struct check {
    struct dp_query query; /* the options */
    struct budget budgets[BUDGETS_MAX];
    size_t n;
    bool is_lenient;
    char **paths;
    size_t n_paths;
};

struct side {
    double total, variance;
    bool is_exact;
};

/* -1: the profile has no such type. */
static int find_type(const struct dp_model *m, const char *name)
{
    size_t type = dp_model_type_named(m, name);
    return type < m->types.n ? (int)type : -1;
}

static struct side measure(struct dp_query *v)
{
    const struct dp_model *m = &v->merge.model;
    struct side side = {.is_exact = false};
    int objects = -1;
    double rate = (double)v->merge.header.period;
    for (size_t i = 0; i < m->types.n; i++) {
        const char *name = dp_model_text(m, m->types.at[i].type), *space = dp_query_type(v);
        size_t n = strcspn(name, "_");
        if (!strcmp(name + n, "_objects") && !strncmp(name, space, n + 1) && !strcmp(space + n, "_space"))
            objects = (int)i;
    }
    bool is_filtered = dp_query_filters(v) || v->at_text;
    bool is_exact_in_all = !strcmp(dp_query_type(v), "cpu") || !strcmp(dp_query_type(v), "wall");
    int samples = is_exact_in_all && is_filtered ? find_type(m, "samples") : -1;
    for (uint32_t row = 0; row < m->rows.n; row++) {
        double value = (double)dp_query_value(v, row);
        double n_samples = samples < 0 ? 0 : (double)v->merge.values.at[row * m->types.n + (size_t)samples];
        if (!value || dp_query_row(v, row) <= 0)
            continue;
        double n = objects < 0 ? 0 : (double)v->merge.values.at[row * m->types.n + (size_t)objects];
        side.total += value;
        if (n > 0 && rate > 1) { /* n blocks of value / n bytes each */
            double size = value / n, p = -expm1(-size / rate);
            side.variance += n * size * size * (1 - p) / p;
        }
        if (n_samples > 0)
            side.variance += value * value / n_samples;
    }
    if (v->allocated > 0 && !strcmp(dp_query_type(v), "alloc_space") && !is_filtered)
        side = (struct side){.total = (double)v->allocated, .is_exact = true};
    return side;
}

/* ---- judging ---------------------------------------------------------------------------------------------------- */

static int refuse_nothing(const struct dp_query *v, const char *what)
{
    dp_query_print_error("check", "%s: nothing to compare: %s", dp_query_print_word_of(v->argument), what);
    return DP_EXIT_USAGE;
}

static void judge_growth(struct result *r, const struct budget *b, struct side old, struct side new)
{
    double growth = new.total - old.total, sd = sqrt(old.variance + new.variance);
    r->before = old.total;
    r->after = new.total;
    r->percent = old.total > 0 ? 100 * growth / old.total : growth > 0 ? INFINITY : 0;
    r->noise = CERTAIN * sd;
    bool reaches = growth > 0 && r->percent >= REACHED * b->limit;
    r->status = !reaches ? 0 : growth > CERTAIN * sd ? DP_EXIT_FAILED : DP_EXIT_UNSURE;
}

static void judge_most(struct result *r, const struct budget *b, struct side new)
{
    r->after = new.total;
    r->noise = CERTAIN * sqrt(new.variance);
    r->status = new.total <= b->limit ? 0 : new.total - r->noise > b->limit ? DP_EXIT_FAILED : DP_EXIT_UNSURE;
}

static void set_type(struct result *r, const struct dp_query *v)
{
    snprintf(r->type, sizeof r->type, "%s", dp_query_type(v));
    snprintf(r->unit, sizeof r->unit, "%s", dp_query_unit(v));
}

static void print_result(const struct budget *b, const struct result *r)
{
    static const char *const words[] = {"passed", "over budget", "nothing to compare", "not sure"};
    char before[32], after[32], limit[32];
    dp_query_print_unit(before, sizeof before, (int64_t)r->before, r->unit);
    dp_query_print_unit(after, sizeof after, (int64_t)r->after, r->unit);
    dp_query_print_unit(limit, sizeof limit, (int64_t)b->limit, r->unit);
    if (b->is_growth)
        printf("%s: %s -> %s, %+.2f%%, budget %g%%: %s\n", r->type, before, after, r->percent, b->limit,
               words[r->status]);
    else if (!strcmp(r->unit, CORES))
        printf("%s: %.3g, at most %.3g: %s\n", r->type, r->after, b->limit, words[r->status]);
    else
        printf("%s: %s, at most %s: %s\n", r->type, after, limit, words[r->status]);
    if (r->status == DP_EXIT_UNSURE && r->noise > 0)
        printf("Sampling alone makes up to %.2f%% of difference. heap_rate=1 is exact.\n",
               100 * r->noise / fmax(b->is_growth ? r->before : r->after, 1));
}

static void print_json_values(const struct budget *b, const struct result *r)
{
    dp_query_print_json_text(",", "unit", r->unit);
    if (b->is_growth) {
        dp_query_print_json_number(",", "before", (int64_t)r->before);
        dp_query_print_json_number(",", "after", (int64_t)r->after);
        if (isfinite(r->percent))
            dp_query_print_json_fraction(",", "growth_percent", r->percent);
    } else if (!strcmp(r->unit, CORES)) {
        dp_query_print_json_fraction(",", "value", r->after);
    } else {
        dp_query_print_json_number(",", "value", (int64_t)r->after);
    }
    dp_query_print_json_number(",", "noise", (int64_t)r->noise);
}

/* Of what could not be read, only the budget is known. */
static void print_json(const char *separator, const struct budget *b, const struct result *r)
{
    dp_query_print_json_number(separator, "status", r->status);
    const char *limit = b->is_growth ? "max_growth_percent" : "max";
    if (b->limit == floor(b->limit))
        dp_query_print_json_number(",", limit, (int64_t)b->limit);
    else
        dp_query_print_json_fraction(",", limit, b->limit);
    if (*r->type)
        dp_query_print_json_text(",", "type", r->type);
    if (*r->unit)
        print_json_values(b, r);
    putchar('}');
}

/* Memory in use is that of the peak. A budget may name the type. */
static void set_options(struct dp_query *v, const struct check *c, const struct budget *b)
{
    dp_query_same(v, &c->query);
    if (*b->type)
        v->type_name = b->type;
    if (!v->type_name) /* the first of these types that a file has */
        v->preferred = "alloc_space";
    if (v->at == DP_QUERY_AT_USUAL)
        v->at = DP_QUERY_AT_PEAK;
}

static int check_growth(const struct check *c, const struct budget *b, struct result *r)
{
    struct dp_query old_view, new_view;
    struct dp_cli_growth g = {.n_files = 0};
    set_options(&old_view, c, b);
    set_options(&new_view, c, b);
    int status = dp_cli_growth_pair(&g, &old_view, &new_view, c->paths);
    if (!status) {
        struct side old = measure(&old_view), new = measure(&new_view);
        if (old.is_exact != new.is_exact) { /* compare samples with samples */
            old_view.allocated = new_view.allocated = 0;
            old = measure(&old_view);
            new = measure(&new_view);
        }
        set_type(r, &new_view);
        judge_growth(r, b, old, new);
        if (old.total <= 0 && new.total <= 0)
            status = refuse_nothing(&new_view, "both sides have none of this type");
        else if (!c->query.json)
            print_result(b, r);
        if (!status && !c->query.json && r->status == DP_EXIT_FAILED)
            dp_cli_growth_print(&g, r->unit, STACKS_SHOWN, FRAMES_SHOWN);
    }
    dp_cli_growth_fini(&g);
    dp_query_same_fini(&old_view);
    dp_query_same_fini(&new_view);
    return status;
}

static int check_most(const struct check *c, const struct budget *b, struct result *r)
{
    struct dp_query v;
    set_options(&v, c, b);
    int status = dp_query_read(&v, &c->paths[c->n_paths - 1], 1);
    if (!status && v.merge.model.rows.n == 0)
        status = refuse_nothing(&v, "the profile has no sample");
    if (!status) {
        set_type(r, &v);
        judge_most(r, b, measure(&v));
        if (!c->query.json)
            print_result(b, r);
    }
    dp_query_same_fini(&v);
    return status;
}

static int check_leaks(const struct check *c, const struct budget *b, struct result *r)
{
    struct dp_summary_leaks_summary leaks;
    struct dp_query_stacks stacks = {.key = {0}};
    int status = dp_summary_leaks_summarize(&leaks, "check", &c->paths[c->n_paths - 1], 1, &stacks);
    if (!status) {
        strcpy(r->type, "leaks");
        strcpy(r->unit, "bytes");
        judge_most(r, b, (struct side){.total = (double)leaks.bytes});
        if (leaks.verdict == DP_LEAKS_CANNOT_TELL)
            r->status = DP_EXIT_UNSURE;
        if (!c->query.json)
            print_result(b, r);
        if (!c->query.json && *leaks.worst)
            printf("    %s\n", leaks.worst);
        if (!c->query.json && *leaks.needs)
            printf("    %s\n", leaks.needs);
    }
    dp_query_stacks_fini(&stacks);
    return status;
}

static int check_cores(const struct check *c, const struct budget *b, struct result *r)
{
    struct dp_query v;
    set_options(&v, c, &(struct budget){.type = "cpu"});
    int status = dp_query_read(&v, &c->paths[c->n_paths - 1], 1);
    double lasted = (double)dp_model_merge_covered_ns(&v.merge);
    if (!status && (v.merge.model.rows.n == 0 || lasted <= 0))
        status = refuse_nothing(&v, lasted > 0 ? "the profile has no sample" : "the profile covers no time");
    if (!status) {
        struct side side = measure(&v);
        strcpy(r->type, CORES);
        strcpy(r->unit, CORES);
        judge_most(r, b, (struct side){.total = side.total / lasted, .variance = side.variance / lasted / lasted});
        if (!c->query.json)
            print_result(b, r);
    }
    dp_query_same_fini(&v);
    return status;
}

/* The worse of two: bad input, then over budget, then not sure. */
static int worse(int x, int y)
{
    static const int rank[] = {0, 2, 3, 1};
    return rank[x] >= rank[y] ? x : y;
}

static int check_all(const struct check *c)
{
    int status = 0;
    if (c->query.json)
        fputs("{\"budgets\":[", stdout);
    for (size_t i = 0; i < c->n; i++) {
        const struct budget *b = &c->budgets[i];
        struct result r = {.status = 0};
        int failed = b->is_growth                ? check_growth(c, b, &r)
                     : !strcmp(b->type, "leaks") ? check_leaks(c, b, &r)
                     : !strcmp(b->type, CORES)   ? check_cores(c, b, &r)
                                                 : check_most(c, b, &r);
        if (failed) {
            r.status = DP_EXIT_USAGE;
            snprintf(r.type, sizeof r.type, "%s", b->type);
        }
        status = worse(status, r.status);
        if (c->query.json)
            print_json(i ? ",\n{" : "\n{", b, &r);
    }
    if (status == DP_EXIT_UNSURE && c->is_lenient)
        status = 0;
    if (c->query.json)
        printf("],\"status\":%d}\n", status);
    return dp_query_print_flush("check") ? DP_EXIT_USAGE : status;
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

static int refuse_budget(const char *option, const char *text, const char *wanted)
{
    dp_query_print_error("check", "%s %s is not %s", option, text, wanted);
    return DP_EXIT_USAGE;
}

/* "TYPE=" in front of the value. NULL: no room for it, or for another budget. */
static struct budget *begin_budget(struct check *c, const char *text, const char **value)
{
    const char *equals = strchr(text, '=');
    size_t n = equals ? (size_t)(equals - text) : 0;
    if (c->n == BUDGETS_MAX || n >= sizeof c->budgets[0].type || (equals && !n))
        return NULL;
    struct budget *b = &c->budgets[c->n++];
    *b = (struct budget){.limit = -1};
    memcpy(b->type, text, n);
    *value = equals ? equals + 1 : text;
    return b;
}

static int take_growth(struct check *c, const char *text)
{
    const char *value;
    char *end;
    struct budget *b = begin_budget(c, text, &value);
    if (!b)
        return refuse_budget("--max-growth", text, "one of up to 16 budgets [TYPE=]N%");
    b->is_growth = true;
    b->limit = strtod(value, &end);
    end += *end == '%';
    if (!strcmp(b->type, CORES))
        return refuse_budget("--max-growth", text, "a type of profiles; cpu is");
    if (end != value && !*end && b->limit >= 0 && isfinite(b->limit) && strcmp(b->type, "leaks"))
        return 0;
    return refuse_budget("--max-growth", text, "a percentage");
}

/* A size or a time, by its unit; a number alone is bytes. */
static int take_most(struct check *c, const char *text)
{
    static const struct {
        const char *name, *type;
        double factor;
    } units[] = {{"", "inuse_space", 1},        {"k", "inuse_space", 1 << 10}, {"K", "inuse_space", 1 << 10},
                 {"M", "inuse_space", 1 << 20}, {"G", "inuse_space", 1 << 30}, {"ns", "delay", 1},
                 {"us", "delay", 1e3},          {"ms", "delay", 1e6},          {"s", "delay", 1e9},
                 {"m", "delay", 60e9},          {"h", "delay", 3600e9}};
    const char *value;
    char *end;
    struct budget *b = begin_budget(c, text, &value);
    if (!b)
        return refuse_budget("--max", text, "one of up to 16 budgets [TYPE=]SIZE|TIME");
    double number = strtod(value, &end);
    bool is_time = !strcmp(b->type, "delay") || !strcmp(b->type, "cpu") || !strcmp(b->type, "wall");
    for (size_t i = 0; i < sizeof units / sizeof *units && end != value && number >= 0 && isfinite(number); i++)
        if (!strcmp(end, units[i].name)) {
            if (*b->type && number > 0 && is_time != !strcmp(units[i].type, "delay"))
                return refuse_budget("--max", text,
                                     is_time ? "a time with its unit (ns us ms s m h)" : "a size or a number");
            b->limit = number * units[i].factor;
            if (!*b->type)
                strcpy(b->type, units[i].type);
        }
    if (b->limit >= 0x1p63)
        return refuse_budget("--max", text, "below 2^63 bytes or ns");
    return b->limit >= 0 ? 0 : refuse_budget("--max", text, "a size (k M G) or a time (ns us ms s m h)");
}

static int complain(const struct check *c)
{
    bool needs_old = false;
    for (size_t i = 0; i < c->n; i++)
        needs_old |= c->budgets[i].is_growth;
    if (!c->n)
        dp_query_print_error("check",
                             "no budget given: deltaprof check --max-growth N%% OLD NEW, or --max SIZE|TIME NEW");
    else if (needs_old && c->n_paths != 2)
        dp_query_print_error("check", "two profiles needed: deltaprof check --max-growth N%% OLD NEW");
    else if (!c->n_paths || c->n_paths > 2)
        dp_query_print_error("check", "one profile needed: deltaprof check --max SIZE|TIME NEW");
    else
        return 0;
    return DP_EXIT_USAGE;
}

int dp_cli_check(int argc, char **argv)
{
    static const struct option options[] = {{"max-growth", required_argument, NULL, 'g'},
                                            {"max", required_argument, NULL, 'm'},
                                            {"lenient", no_argument, NULL, 'l'},
                                            DP_QUERY_OPTIONS};
    struct check c = {.n = 0};
    if (dp_cli_help(argc, argv, about))
        return 0;
    dp_query_files_init();
    int status = dp_query_init(&c.query, "check", argc) ? DP_EXIT_USAGE : 0;
    for (int option; !status && (option = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        if (option == 'l')
            c.is_lenient = true;
        else
            status = option == 'g'   ? take_growth(&c, optarg)
                     : option == 'm' ? take_most(&c, optarg)
                                     : dp_query_option(&c.query, argv, option);
    }
    c.paths = argv + optind;
    c.n_paths = (size_t)(argc - optind);
    if (!status)
        status = complain(&c);
    if (!status && dp_cli_live_begin("check", c.paths, (int)c.n_paths))
        status = DP_EXIT_USAGE;
    c.query.strict = true;
    if (!status)
        status = check_all(&c);
    dp_query_fini(&c.query);
    return status;
}
