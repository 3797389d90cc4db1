/* SPDX-License-Identifier: MIT */
/*
 * tool/query/at.c - chooses which state of each process is shown, for all verbs.
 *
 * Of processes that run, it is the newest. If all have ended, it is the peak: the time at which all processes together
 * had the most bytes in use, according to their files. A program may free all its memory before it ends, so that its
 * last state says nothing about it. Memory of two processes that did not live at the same time is never added.
 */
#include "tool/query/at.h"

#include "tool/query/print.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LAST_NS = 999999999 }; /* from the start of a second to its end */

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
        [DP_QUERY_AT_PEAK] = "peak", [DP_QUERY_AT_END] = "end", [DP_QUERY_AT_LAST] = "last"};
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
    dp_query_print_error(verb, "--at %s: peak, end, last, HH:MM:SS or YYYY-MM-DD HH:MM:SS", text);
    return DP_EXIT_USAGE;
}

void dp_query_at_text(char *to, size_t n_bytes, int64_t time_ns)
{
    time_t seconds = (time_t)(time_ns / 1000000000), now = time(NULL);
    struct tm tm, today;
    bool is_known = time_ns && localtime_r(&seconds, &tm) && localtime_r(&now, &today);
    bool is_today = is_known && tm.tm_year == today.tm_year && tm.tm_yday == today.tm_yday;
    if (!is_known || !strftime(to, n_bytes, is_today ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S %Z", &tm))
        *to = '\0';
}

/* ---- choosing --------------------------------------------------------------------------------------------------- */

/* The memory that counts of a state: in a sum, memory that was inherited at a fork counts for the parent only. */
static int64_t bytes_of(const struct dp_query *v, const struct dp_query_moment *m)
{
    return v->moments.n_processes > 1 && !v->merge.with_inherited ? m->part.moment.own_bytes : m->part.moment.bytes;
}

static int by_time(const void *a, const void *b, void *moments)
{
    const struct dp_query_moment *at = moments, *x = &at[*(const uint32_t *)a], *y = &at[*(const uint32_t *)b];
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

/* The numbers of the processes, by moment; and the moments in the order of time, those of a process in its order. */
struct walk {
    uint32_t *process; /* by moment */
    uint32_t *by_time; /* positions in order */
    int64_t *in_use;   /* by process */
    struct dp_query_moment *ordered;
};

static bool walk_init(struct walk *w, const struct dp_query_moments *ms)
{
    size_t n = ms->at.n + 1;
    *w = (struct walk){.process = calloc(n, sizeof *w->process),
                       .by_time = calloc(n, sizeof *w->by_time),
                       .in_use = calloc(n, sizeof *w->in_use),
                       .ordered = calloc(n, sizeof *w->ordered)};
    if (!w->process || !w->by_time || !w->in_use || !w->ordered)
        return false;
    uint32_t process = 0;
    for (uint32_t i = 0; i < ms->order.n; i++) {
        w->ordered[i] = ms->at.at[ms->order.at[i]];
        w->process[i] = process;
        process += w->ordered[i].is_last;
        w->by_time[i] = i;
    }
    qsort_r(w->by_time, ms->order.n, sizeof *w->by_time, by_time, w->ordered);
    return true;
}

static void walk_fini(struct walk *w)
{
    free(w->process);
    free(w->by_time);
    free(w->in_use);
    free(w->ordered);
}

#define TICK_NS 1000000000 /* ticks that are shorter are apart */

/* Whether the next moment is another process's of the same tick: until then, its value is a tick old. */
static bool is_within_tick(const struct walk *w, uint32_t at, uint32_t next)
{
    const struct dp_query_moment *m = &w->ordered[next];
    return w->process[next] != w->process[at] &&
           m->time_ns - w->ordered[at].time_ns < dp_kind_tick_slack_ms * INT64_C(1000000) && next > 0 &&
           w->process[next - 1] == w->process[next] && m->time_ns - w->ordered[next - 1].time_ns >= TICK_NS;
}

/* The time at which the sum over processes was largest. */
static int find_peak(const struct dp_query *v, int64_t *time_ns)
{
    const struct dp_query_moments *ms = &v->moments;
    struct walk w;
    int64_t sum = 0, most = INT64_MIN;
    bool ok = walk_init(&w, ms);
    for (size_t i = 0, first = 0; i < ms->order.n && ok; i++) {
        const struct dp_query_moment *m = &w.ordered[w.by_time[i]];
        int64_t *its = &w.in_use[w.process[w.by_time[i]]], now = bytes_of(v, m);
        dp_model_merge_sum(&sum, -*its);
        dp_model_merge_sum(&sum, *its = now);
        if (i + 1 < ms->order.n &&
            (w.ordered[w.by_time[i + 1]].time_ns == m->time_ns || is_within_tick(&w, w.by_time[i], w.by_time[i + 1])))
            continue;
        if (sum > most) {
            most = sum;
            *time_ns = m->time_ns;
        }
        for (; first <= i; first++) { /* what ended at this time is not in use afterwards */
            uint32_t at = w.by_time[first];
            if (!w.ordered[at].is_last || !dp_query_moment_ended(&w.ordered[at]))
                continue;
            dp_model_merge_sum(&sum, -w.in_use[w.process[at]]);
            w.in_use[w.process[at]] = 0;
        }
    }
    walk_fini(&w);
    return ok ? 0 : -ENOMEM;
}

/* A time without a date means the day of the newest file, or the day before. */
static int64_t wanted_time(const struct dp_query_moments *ms, const char *text)
{
    struct tm tm, newest;
    bool has_date;
    int64_t newest_ns = 0;
    for (size_t i = 0; i < ms->at.n; i++)
        newest_ns = ms->at.at[i].time_ns > newest_ns ? ms->at.at[i].time_ns : newest_ns;
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

/* The moments order[i..n) of one process. */
struct process {
    struct dp_query_moments *ms;
    size_t first, last;
};

static struct dp_query_moment *moment(const struct process *p, size_t i)
{
    return &p->ms->at.at[p->ms->order.at[i]];
}

/* The process that begins at order[first]. */
static struct process process_at(struct dp_query_moments *ms, size_t first)
{
    struct process p = {ms, first, first};
    while (!moment(&p, p.last)->is_last)
        p.last++;
    return p;
}

/* The newest moment at time_ns, unless the process had ended before since_ns. NULL: none. */
static struct dp_query_moment *until(const struct process *p, int64_t since_ns, int64_t time_ns)
{
    struct dp_query_moment *found = NULL, *last = moment(p, p->last);
    for (size_t i = p->first; i <= p->last && moment(p, i)->time_ns <= time_ns; i++)
        found = moment(p, i);
    return found == last && dp_query_moment_ended(last) && last->time_ns < since_ns ? NULL : found;
}

/* The moment at which the process began to end, in order: its destructors may free all. */
static size_t begin_of_end(const struct process *p)
{
    for (size_t i = p->last + 1; i-- > p->first;)
        if (moment(p, i)->part.moment.is_exit)
            return i;
    return p->last - (moment(p, p->last)->part.moment.ended && p->last > p->first);
}

/* The processes that were there at the end: they ended at most one interval before the last one, or not at all. */
static int64_t first_of_ends(struct dp_query_moments *ms)
{
    int64_t end_ns = INT64_MIN, since_ns = INT64_MIN;
    for (size_t i = 0; i < ms->order.n;) {
        struct process p = process_at(ms, i);
        int64_t longest = 0, time_ns = moment(&p, p.last)->time_ns;
        for (size_t j = p.first; j <= p.last; j++)
            if (moment(&p, j)->part.moment.duration_ns > longest)
                longest = moment(&p, j)->part.moment.duration_ns;
        if (time_ns > end_ns) {
            end_ns = time_ns;
            since_ns = time_ns - longest;
        }
        i = p.last + 1;
    }
    return since_ns;
}

/* The time at which the first of these processes began to end: until then, all of them lived. */
static int64_t end_time(struct dp_query_moments *ms)
{
    int64_t since_ns = first_of_ends(ms), time_ns = INT64_MAX;
    for (size_t i = 0; i < ms->order.n;) {
        struct process p = process_at(ms, i);
        int64_t its_ns = moment(&p, begin_of_end(&p))->time_ns;
        if (moment(&p, p.last)->time_ns >= since_ns && its_ns < time_ns)
            time_ns = its_ns;
        i = p.last + 1;
    }
    return time_ns;
}

static struct dp_query_moment *choose_of(const struct process *p, int which, int64_t time_ns)
{
    struct dp_query_moment *last = moment(p, p->last), *found;
    switch (which) {
    case DP_QUERY_AT_NOW:
        return dp_query_moment_ended(last) ? NULL : last;
    case DP_QUERY_AT_LAST:
        return last->time_ns < time_ns ? NULL : last;
    case DP_QUERY_AT_END:
        found = until(p, time_ns, time_ns);
        return found && found == last ? moment(p, begin_of_end(p)) : found;
    default:
        return until(p, which == DP_QUERY_AT_TIME ? time_ns - LAST_NS : time_ns, time_ns);
    }
}

/*
 * The most that a process had in use when its end began. Processes end at different times, so the values are not
 * added.
 */
static int64_t most_at_end(const struct dp_query *v, struct dp_query_moments *ms)
{
    int64_t most = 0;
    for (size_t i = 0; i < ms->order.n;) {
        struct process p = process_at(ms, i);
        int64_t bytes = bytes_of(v, moment(&p, begin_of_end(&p)));
        most = bytes > most ? bytes : most;
        i = p.last + 1;
    }
    return most;
}

/* Marks the moments that count at that time. Returns the sum of their bytes. */
static int64_t choose(struct dp_query *v, int which, int64_t time_ns)
{
    struct dp_query_moments *ms = &v->moments;
    int64_t sum = 0;
    for (size_t i = 0; i < ms->order.n;) {
        struct process p = process_at(ms, i);
        struct dp_query_moment *chosen = choose_of(&p, which, time_ns);
        i = p.last + 1;
        if (!chosen)
            continue;
        dp_model_merge_sum(&sum, bytes_of(v, chosen));
        chosen->part.counts = true;
        ms->n_counted++;
        if (chosen->time_ns > ms->time_ns)
            ms->time_ns = chosen->time_ns;
    }
    return sum;
}

static int refuse(const struct dp_query *v)
{
    bool is_later = true;
    for (size_t i = 0; i < v->moments.at.n; i++)
        is_later &= v->moments.at.at[i].time_ns > v->moments.time_ns;
    dp_query_print_error(v->verb, "--at %s: no process has a file of that time; %s", v->at_text,
                         is_later ? "the first is later" : "all had ended");
    return DP_EXIT_FAILED;
}

/* The state that is shown if the user names none. */
static int usual(const struct dp_query_moments *ms)
{
    return ms->n_ended == ms->n_processes ? DP_QUERY_AT_PEAK : DP_QUERY_AT_NOW;
}

int dp_query_at_choose(struct dp_query *v)
{
    struct dp_query_moments *ms = &v->moments;
    bool is_usual = v->at == DP_QUERY_AT_USUAL;
    dp_query_moments_fini(ms);
    ms->is_whole = is_usual && v->paths.n == 1 && !v->merge.keeps_moments;
    int status = ms->is_whole ? 0 : dp_query_moments_read(v, is_usual && !v->merge.keeps_moments);
    if (status || (ms->is_whole && is_usual))
        return status;
    if (ms->is_whole && !v->at_text)
        return 0;
    if (ms->is_whole && v->needed) {
        dp_query_print_error(v->verb, "%s: these profiles have no memory in use", v->argument);
        return DP_EXIT_FAILED;
    }
    if (ms->is_whole) {
        dp_query_print_error(v->verb, "--at %s: these profiles have no memory in use", v->at_text);
        return DP_EXIT_FAILED;
    }
    int64_t time_ns = INT64_MIN;
    ms->which = is_usual ? usual(ms) : v->at;
    if (ms->which == DP_QUERY_AT_TIME)
        time_ns = wanted_time(ms, v->at_text);
    else if (ms->which == DP_QUERY_AT_END)
        time_ns = end_time(ms);
    else if (ms->which == DP_QUERY_AT_LAST)
        time_ns = first_of_ends(ms);
    else if (ms->which == DP_QUERY_AT_PEAK && find_peak(v, &time_ns)) {
        dp_query_print_error(v->verb, "out of memory");
        return DP_EXIT_FAILED;
    }
    ms->time_ns = INT64_MIN;
    ms->bytes = choose(v, ms->which, time_ns);
    if (ms->which == DP_QUERY_AT_PEAK) {
        ms->time_ns = time_ns; /* not that of the newest of the states that make the sum */
        ms->end_bytes = most_at_end(v, ms);
    }
    if (!ms->n_counted)
        ms->time_ns = time_ns;
    return ms->n_counted ? 0 : refuse(v);
}
