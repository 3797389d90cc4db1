/* SPDX-License-Identifier: MIT */
/*
 * query/at.c - chooses files for `--at`: for each process the newest file that is not later than the given time,
 * without processes that had ended by then.
 *
 * The peak is the time at which all processes together had the most bytes in use, according to their files.
 */
#include "query/at.h"

#include "print/print.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LAST_NS = 999999999 }; /* from the start of a second to its end */

/* One file. */
struct moment {
    size_t path; /* in v->paths */
    uint32_t process;
    int64_t time_ns, inuse;
    unsigned long long seq;
    bool ended, is_exit;
};

struct moments {
    struct moment *at; /* by time */
    size_t n;
    uint32_t n_processes;
};

static bool parse_clock(const char *text, struct tm *tm, bool *has_date)
{
    static const char *const forms[] = {"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%H:%M:%S",
                                        "%H:%M"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        *tm = (struct tm){.tm_isdst = -1};
        const char *end = strptime(text, forms[i], tm);
        *has_date = i < 3;
        struct tm same = *tm;
        if (end && !*end) /* timegm would make March of 30 February */
            return !*has_date || (timegm(&same) != -1 && same.tm_mday == tm->tm_mday);
    }
    return false;
}

int dp_query_at_parse(const char *verb, const char *text, int *at)
{
    static const char *const words[] = {
        [DP_QUERY_AT_PEAK] = "peak", [DP_QUERY_AT_EXIT] = "exit", [DP_QUERY_AT_LAST] = "last"};
    struct tm tm;
    bool has_date;
    for (int i = DP_QUERY_AT_PEAK; i <= DP_QUERY_AT_LAST; i++)
        if (!strcmp(text, words[i])) {
            *at = i;
            return 0;
        }
    *at = DP_QUERY_AT_TIME;
    if (parse_clock(text, &tm, &has_date))
        return 0;
    dp_print_error(verb, "--at %s: peak, exit, last, HH:MM:SS or YYYY-MM-DD HH:MM:SS", text);
    return DP_EXIT_USAGE;
}

void dp_query_at_text(char *to, size_t n_bytes, int64_t time_ns)
{
    time_t seconds = (time_t)(time_ns / 1000000000);
    struct tm tm;
    if (!time_ns || !localtime_r(&seconds, &tm) || !strftime(to, n_bytes, "%Y-%m-%d %H:%M:%S %Z", &tm))
        *to = '\0';
}

/* ---- reading the files ------------------------------------------------------------------------------------------ */

static bool is_type(const struct dp_decode *d, size_t type, const char *name)
{
    size_t n;
    const char *text = dp_decode_text(d, d->types.at[type].type, &n);
    return n == strlen(name) && !memcmp(text, name, n);
}

/* The sum of inuse_space; 0 if there is no such type. */
static int sum_inuse(const struct dp_decode *d, int64_t *sum, struct dp_decode_error *error)
{
    size_t type = 0;
    *sum = 0;
    while (type < d->types.n && !is_type(d, type, "inuse_space"))
        type++;
    if (type == d->types.n)
        return 0;
    struct dp_decode_sample sample = {.values = {0}};
    int err = 0;
    for (size_t i = 0; i < d->samples.n && !err; i++) {
        err = dp_decode_sample(d, i, &sample, error);
        if (!err)
            dp_merge_sum(sum, sample.values.at[type]);
    }
    dp_decode_sample_fini(&sample);
    return err;
}

static int read_moment(struct dp_query *v, struct dp_query_source *source, struct moment *moment)
{
    const char *path = v->paths.at[moment->path];
    struct dp_decode_error error;
    int status = dp_query_read_file(v->verb, path, v->limit_bytes, source);
    if (status)
        return status;
    moment->time_ns = source->decode.time_ns + source->decode.duration_ns; /* in-use values are those at the end */
    moment->is_exit = dp_merge_says(&source->decode, DP_COMMENT_EXIT);
    moment->ended = moment->is_exit || dp_merge_says(&source->decode, DP_COMMENT_ENDED);
    int err = v->at == DP_QUERY_AT_PEAK ? sum_inuse(&source->decode, &moment->inuse, &error) : 0;
    if (err && err != -ENOMEM && source->is_quiet)
        return DP_QUERY_BROKEN;
    return err ? dp_query_refuse(v->verb, path, err, &error) : 0;
}

static int by_time(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Numbers the processes, by file name; files with other names count as one process. */
static int number_processes(struct dp_query *v, struct moments *ms)
{
    struct dp_query_file *names = calloc(v->paths.n + 1, sizeof *names);
    if (!names) {
        dp_print_error(v->verb, "out of memory");
        return DP_EXIT_FAILED;
    }
    for (size_t i = 0; i < v->paths.n; i++)
        ms->at[i].path = i;
    size_t n_names = dp_query_files_sort(v->paths.at, v->paths.n, names);
    for (size_t i = 0; i < n_names; i++) {
        ms->n_processes += i > 0 && !dp_query_file_is_same(&names[i], &names[i - 1]);
        ms->at[names[i].position].process = ms->n_processes + 1;
        ms->at[names[i].position].seq = names[i].seq;
    }
    ms->n_processes += 2; /* 0 is the process of the other names */
    free(names);
    return 0;
}

/* ---- choosing --------------------------------------------------------------------------------------------------- */

/* The time at which the sum over processes was largest. */
static int64_t peak_time(const struct moments *ms)
{
    int64_t *inuse = calloc(ms->n_processes, sizeof *inuse), sum = 0, most = INT64_MIN, time_ns = 0;
    for (size_t i = 0; inuse && i < ms->n; i++) {
        int64_t *its = &inuse[ms->at[i].process], now = ms->at[i].ended && !ms->at[i].is_exit ? 0 : ms->at[i].inuse;
        dp_merge_sum(&sum, -*its);
        dp_merge_sum(&sum, now);
        *its = now;
        bool is_whole = i + 1 == ms->n || ms->at[i + 1].time_ns != ms->at[i].time_ns;
        if (is_whole && sum > most) {
            most = sum;
            time_ns = ms->at[i].time_ns;
        }
    }
    free(inuse);
    return time_ns;
}

/* A time without a date means the day of the newest file, or the day before. */
static int64_t wanted_time(const struct moments *ms, const char *text)
{
    struct tm tm, newest;
    bool has_date;
    int64_t newest_ns = 0;
    for (size_t i = 0; i < ms->n; i++)
        newest_ns = ms->at[i].time_ns > newest_ns ? ms->at[i].time_ns : newest_ns;
    time_t seconds = (time_t)(newest_ns / 1000000000);
    parse_clock(text, &tm, &has_date);
    if (!has_date && localtime_r(&seconds, &newest)) {
        tm.tm_year = newest.tm_year;
        tm.tm_mon = newest.tm_mon;
        tm.tm_mday = newest.tm_mday;
        struct tm that_day = tm;
        if (mktime(&that_day) > seconds + 12 * 3600) /* a time a little later than the newest file means the same day */
            tm.tm_mday--;
    }
    int64_t wanted = (int64_t)mktime(&tm) + 1;
    return wanted < INT64_MAX / 1000000000 ? wanted * 1000000000 - 1 : INT64_MAX - 1; /* the end of that second */
}

/*
 * Marks for each process its newest file at time_ns, unless the process had ended before since_ns. Of two files, the
 * one with the higher SEQ is the newer, because clocks may go back.
 */
static void choose_until(const struct moments *ms, int64_t since_ns, int64_t time_ns, size_t *chosen)
{
    for (size_t i = 0; i < ms->n; i++) {
        size_t *its = &chosen[ms->at[i].process];
        if (ms->at[i].time_ns <= time_ns && (!*its || ms->at[i].seq >= ms->at[*its - 1].seq))
            *its = i + 1;
    }
    for (uint32_t p = 0; p < ms->n_processes && time_ns < INT64_MAX; p++)
        if (chosen[p] && ms->at[chosen[p] - 1].ended && ms->at[chosen[p] - 1].time_ns < since_ns)
            chosen[p] = 0;
}

/* Marks of each process the file of before its destructors ran, or else its last. */
static void choose_ended(const struct moments *ms, size_t *chosen)
{
    for (size_t i = 0; i < ms->n; i++)
        if (ms->at[i].ended && !chosen[ms->at[i].process])
            chosen[ms->at[i].process] = i + 1;
    for (size_t i = 0; i < ms->n; i++)
        if (ms->at[i].is_exit)
            chosen[ms->at[i].process] = i + 1;
}

static int leave_chosen(struct dp_query *v, const struct moments *ms, const size_t *chosen, int64_t time_ns)
{
    size_t n = 0;
    char **kept = calloc(ms->n_processes, sizeof *kept);
    for (uint32_t p = 0; kept && p < ms->n_processes; p++)
        if (chosen[p]) {
            kept[n++] = v->paths.at[ms->at[chosen[p] - 1].path];
            v->paths.at[ms->at[chosen[p] - 1].path] = NULL;
        }
    for (size_t i = 0; kept && i < v->paths.n; i++)
        free(v->paths.at[i]);
    if (kept && n)
        memcpy(v->paths.at, kept, n * sizeof *kept);
    v->paths.n = kept ? n : v->paths.n;
    free(kept);
    if (v->paths.n)
        return 0;
    if (v->at == DP_QUERY_AT_EXIT)
        dp_print_error(v->verb, "--at exit: no file was written at the end of a process; --at last takes the newest");
    else
        dp_print_error(v->verb, "--at %s: no process has a file of that time; %s", v->at_text,
                       ms->at[0].time_ns > time_ns ? "the first is later" : "all had ended");
    return DP_EXIT_FAILED;
}

int dp_query_at_choose(struct dp_query *v)
{
    struct dp_query_source source = {.is_quiet = dp_query_may_leave_out(v)};
    struct moments ms = {.at = calloc(v->paths.n + 1, sizeof *ms.at), .n = v->paths.n};
    int status = ms.at ? number_processes(v, &ms) : DP_EXIT_FAILED;
    for (size_t i = 0; i < ms.n && !status; i++)
        status = read_moment(v, &source, &ms.at[i]);
    dp_query_source_fini(&source);
    size_t *chosen = calloc(ms.n_processes + 1, sizeof *chosen);
    if (!status && chosen) {
        qsort(ms.at, ms.n, sizeof *ms.at, by_time);
        int64_t time_ns = v->at == DP_QUERY_AT_PEAK   ? peak_time(&ms)
                          : v->at == DP_QUERY_AT_TIME ? wanted_time(&ms, v->at_text)
                                                      : INT64_MAX;
        if (v->at == DP_QUERY_AT_EXIT)
            choose_ended(&ms, chosen);
        else
            choose_until(&ms, v->at == DP_QUERY_AT_TIME ? time_ns - LAST_NS : time_ns, time_ns, chosen);
        status = leave_chosen(v, &ms, chosen, time_ns);
    } else if (!status || !ms.at) {
        dp_print_error(v->verb, "out of memory");
        status = DP_EXIT_FAILED;
    }
    free(chosen);
    free(ms.at);
    return status;
}
