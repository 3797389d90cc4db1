/* SPDX-License-Identifier: MIT */
/*
 * tool/summary/held_sentence.c - says how much of the resident memory malloc holds and nobody uses, and who allocated
 * at the peak what is free now, which is why malloc holds it.
 */
#include "tool/summary/sentence_parts.h"

#include "profile/comments.h"
#include "profile/kinds.h"
#include "tool/query/at.h"
#include "tool/query/print.h"
#include "tool/query/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELD_SHARE   0.2        /* of resident memory; less is normal */
#define HELD_LEAST   (16 << 20) /* bytes */
#define ABSENT_SHARE 0.2        /* of memory in use: as much as has to be told to readers of the resident memory */
#define CAUSE_SHARE  0.25       /* of what malloc holds: a function that had less did not cause it */

/* Resident memory by the comments of profiles. absent: in use, but not resident. */
struct resident {
    int64_t total, held, in_use, absent;
};

enum { FILES_BEFORE = 3 }; /* how many profiles of a process without these comments are passed over */

static void take_comment(struct resident *r, const char *text, size_t n)
{
    int64_t bytes;
    if (dp_profile_comment_number(text, n, DP_COMMENT_RSS_TOTAL, &bytes))
        dp_model_merge_sum(&r->total, bytes);
    else if (dp_profile_comment_number(text, n, DP_COMMENT_RSS_PART DP_RSS_HELD "=", &bytes))
        dp_model_merge_sum(&r->held, bytes);
    else if (dp_profile_comment_number(text, n, DP_COMMENT_RSS_PART DP_RSS_IN_USE "=", &bytes))
        dp_model_merge_sum(&r->in_use, bytes);
    else if (dp_profile_comment_number(text, n, DP_COMMENT_RSS_ABSENT, &bytes))
        dp_model_merge_sum(&r->absent, bytes);
}

/* Reads the comments of one file. */
static int read_resident(struct dp_query *v, const char *file, struct resident *r)
{
    struct dp_query_source source = {.is_quiet = false};
    int status = dp_query_read_file(v->verb, file, v->limit_bytes, &source);
    for (size_t j = 0; j < source.decode.comments.n && !status; j++) {
        size_t n;
        const char *text = dp_decode_text(&source.decode, source.decode.comments.at[j], &n);
        take_comment(r, text, n);
    }
    dp_query_source_fini(&source);
    return status;
}

/*
 * What a process had at the state order[at], or before it: a profile that another process made of its tables has none.
 * If it has ended, the tick before its end counts if malloc held less then: programs free all they have when they end,
 * and nobody gains if malloc gives that back.
 */
static int read_process(struct dp_query *v, size_t at, struct resident *r)
{
    const struct dp_query_moments *ms = &v->moments;
    const struct dp_query_moment *last = &ms->at.at[ms->order.at[at]];
    struct resident found = {0};
    int status = 0;
    for (size_t i = at + 1, n = 0; i-- > 0 && n <= FILES_BEFORE && !status; n++) {
        const struct dp_query_moment *m = &ms->at.at[ms->order.at[i]];
        struct resident one = {0};
        if (m->part.moment.process != last->part.moment.process)
            break;
        status = read_resident(v, v->paths.at[m->path], &one);
        bool is_first = !found.total;
        if (one.total && (is_first || one.held < found.held))
            found = one;
        if (one.total && (!is_first || !dp_query_moment_ended(m)))
            break;
    }
    dp_model_merge_sum(&r->total, found.total);
    dp_model_merge_sum(&r->held, found.held);
    dp_model_merge_sum(&r->in_use, found.in_use);
    dp_model_merge_sum(&r->absent, found.absent);
    return status;
}

/* Of the processes whose states count. */
static int read_processes(struct dp_query *v, struct resident *r)
{
    int status = 0;
    for (size_t i = 0; i < v->moments.order.n && !status; i++)
        if (v->moments.at.at[v->moments.order.at[i]].part.counts)
            status = read_process(v, i, r);
    return status;
}

static void say_held(struct dp_summary_sentences *s, const struct resident *r, struct dp_query *peak,
                     const struct dp_summary_functions *freed)
{
    double share = (double)r->held / (double)r->total;
    const struct dp_summary_function *f = dp_summary_functions_largest(freed);
    struct dp_summary_sentence *to = dp_summary_sentences_add(s, "held", 1 + share);
    struct dp_summary_place place;
    char held[32], most[32], gone[32], when[64];
    if (!to)
        return;
    dp_query_print_unit(held, sizeof held, r->held, "bytes");
    int n = snprintf(to->text, sizeof to->text, "%.0f%% of resident memory, %s, is held by malloc and not in use",
                     100 * share, held);
    to->amount = r->held;
    to->verb = "rss";
    if (f && (double)f->value >= CAUSE_SHARE * (double)r->held &&
        dp_summary_place_of_row(&place, &s->stacks, peak, f->row)) {
        dp_query_print_unit(gone, sizeof gone, f->value, "bytes");
        dp_query_print_unit(most, sizeof most, peak->moments.bytes, "bytes");
        dp_query_at_text(when, sizeof when, peak->moments.time_ns);
        n += snprintf(to->text + n, sizeof to->text - (size_t)n, ": %s had %s more at the peak (%s in use, %s) than %s",
                      place.name, gone, most, when, peak->merge.goes_on ? "now" : "at the end");
        to->stack = place.stack;
    }
    snprintf(to->text + n, sizeof to->text - (size_t)n, ".");
}

/* A program can have more in use than is resident: blocks that it never wrote cost nothing. */
static void look_at_absent(struct dp_summary_sentences *s, const struct resident *r)
{
    char bytes[32];
    dp_query_print_unit(bytes, sizeof bytes, r->absent, "bytes");
    if (r->absent >= HELD_LEAST && (double)r->absent >= ABSENT_SHARE * ((double)r->in_use + (double)r->absent))
        dp_summary_sentences_looked(s, "%s of memory in use never written, so not resident", bytes);
}

static void say_unmeasured(struct dp_summary_sentences *s)
{
    dp_summary_sentences_looked(s, "resident memory was not measured");
    dp_summary_sentences_open(s, "held", "resident memory was measured at no tick: deltaprof rss PID, while it lives");
}

int dp_summary_sentences_held(struct dp_summary_sentences *s)
{
    struct dp_query peak, end;
    struct dp_summary_functions freed = {.at = {0}};
    struct resident r = {0};
    char most[32], when[64];
    int status = dp_summary_sentences_query(&peak, s, "inuse_space", DP_QUERY_AT_PEAK);
    if (!status)
        status = dp_query_read(&peak, s->paths, s->n_paths);
    int of_end = dp_summary_sentences_query(&end, s, "inuse_space", DP_QUERY_AT_END);
    status = status ? status : of_end;
    if (!status)
        status = dp_query_read(&end, s->paths, s->n_paths);
    if (!status)
        status = read_processes(&end, &r);
    if (!status &&
        (dp_summary_functions_count(&freed, &peak, 1, true) || dp_summary_functions_count(&freed, &end, -1, false))) {
        dp_query_print_error(s->verb, "out of memory");
        status = DP_EXIT_FAILED;
    }
    if (!status && r.total > 0 && r.held >= HELD_LEAST && (double)r.held >= HELD_SHARE * (double)r.total)
        say_held(s, &r, &peak, &freed);
    else if (!status && r.total > 0)
        dp_summary_sentences_looked(s, "%.0f%% of resident memory held by malloc and not in use",
                                    100 * (double)r.held / (double)r.total);
    else if (!status)
        say_unmeasured(s);
    if (!status) {
        dp_query_print_unit(most, sizeof most, peak.moments.bytes, "bytes");
        dp_query_at_text(when, sizeof when, peak.moments.time_ns);
        if (peak.moments.bytes > 0)
            dp_summary_sentences_looked(s, *when ? "at most %s in use (%s)" : "at most %s in use", most, when);
        look_at_absent(s, &r);
    }
    if (!status && dp_model_type_named(&end.merge.model, "zero_space") < end.merge.model.types.n)
        status = dp_summary_sentences_zeros(s);
    dp_summary_sentences_note_symbols(s, &peak);
    dp_summary_functions_fini(&freed);
    dp_query_fini(&peak);
    dp_query_fini(&end);
    return status;
}
