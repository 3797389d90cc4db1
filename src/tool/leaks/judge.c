/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/judge.c - sums the evidence of all stacks and processes up into one of three verdicts.
 *
 * leak: a stack whose growth goes on with at least the confidence that was asked for. The same stack in several
 * processes is one leak. no leak: there was enough to see one, no stack comes near it, and each one that grew is seen
 * to have stopped. cannot tell: all else, also growth that is a leak only if a program which uses CPU time and
 * allocates nothing was idle; then `needs` says what was seen and what would settle it.
 *
 * Enough is TICKS_WANTED ticks of work, for start-up takes the first quarter and an end is seen only in the last one,
 * and SAMPLES_WANTED samples: of 30 blocks, the last tenth of the time has none with a probability of 4 % (0.9^30).
 * Memory that was allocated once, at the start, does not grow afterwards and is no leak.
 *
 * Memory that is hardly freed may be a cache that fills, and in TICKS_KEPT ticks nothing tells them apart; later, and
 * where memory turns over, growth that goes on becomes ever likelier to be a leak (calibrate).
 */
#include "tool/leaks/judge.h"

#include "tool/leaks/clock.h"
#include "tool/query/print.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TICKS_WANTED = 10, /* of work: with fewer, growth is not seen to end */
    TICKS_FEW = 20,
    TICKS_LEAST = 3,     /* of work: with fewer, a leak is not told from what a program does when it starts */
    TICKS_KEPT = 6,      /* the same, of memory that is hardly freed: nor from a cache that fills */
    TICKS_LONG = 30,     /* of work: a leak in memory that turns over is seen well */
    SAMPLES_WANTED = 30, /* of a stack: with fewer, an end is not seen */
    SAMPLES_FEW = 5,     /* with fewer, so many more come only after many times as long */
};
#define LONG_NS      30000000000 /* a life in which each process has a tick that has the default interval, and a thread */
#define BY_CPU       0.5         /* least confidence of a leak if CPU time is work: likelier than not */
#define FREED        0.1         /* share of the blocks of a stack: above it, they turn over */
#define TURNED_OVER  0.5         /* share of the blocks of a stack that were freed: above it, most of them */
#define ODDS_LONG    2.33        /* by which 50 % become 70 % */
#define MOVED        2.5         /* standard deviations: by so much may differ what one stack lost and another got */
#define DOUBT        0.08        /* confidence of a stack that may leak */
#define DOUBT_OF_FEW 0.02        /* the same, if there are fewer ticks than TICKS_FEW */

const char *dp_leaks_verdict_text(enum dp_leaks_verdict verdict)
{
    static const char *const texts[] = {
        [DP_LEAKS_CANNOT_TELL] = "cannot tell", [DP_LEAKS_NO_LEAK] = "no leak", [DP_LEAKS_LEAK] = "leak"};
    return texts[verdict];
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static struct dp_leaks_row *row_of(struct dp_leaks *r, const struct dp_leaks_curve *curve, bool is_leak)
{
    while (r->of_stack.n <= 2 * (size_t)curve->stack + 1) {
        uint32_t *fresh = dp_vec_push(&r->of_stack);
        if (!fresh)
            return NULL;
        *fresh = 0;
    }
    uint32_t *known = &r->of_stack.at[2 * curve->stack + is_leak];
    if (!*known) {
        struct dp_leaks_row *fresh = is_leak ? dp_vec_push(&r->leaks) : dp_vec_push(&r->suspects);
        if (!fresh)
            return NULL;
        *fresh = (struct dp_leaks_row){.stack = curve->stack, .row_bytes = -1};
        *known = (uint32_t)(is_leak ? r->leaks.n : r->suspects.n);
    }
    return is_leak ? &r->leaks.at[*known - 1] : &r->suspects.at[*known - 1];
}

static int add(struct dp_leaks *r, const struct dp_leaks_curve *curve, const struct dp_leaks_evidence *e, double bytes,
               bool is_leak, bool has_rate)
{
    struct dp_leaks_row *row = row_of(r, curve, is_leak);
    if (!row)
        return -ENOMEM;
    row->bytes += bytes;
    row->pace += e->bytes_per_hour;
    row->bytes_per_hour += has_rate ? e->bytes_per_hour : 0;
    row->confidence = fmax(row->confidence, e->confidence);
    row->n_processes++;
    if (!row->since_ns || e->since_ns < row->since_ns)
        row->since_ns = e->since_ns;
    if (bytes > row->row_bytes) {
        row->row_bytes = bytes;
        row->row = curve->row;
        row->evidence = *e;
        row->process = curve->process;
        row->n_own = curve->n_own;
    }
    return 0;
}

/* Sorts by pace times confidence; rows of no confidence by their pace. */
static int by_weight(const void *a, const void *b)
{
    const struct dp_leaks_row *x = a, *y = b;
    double left = x->confidence * x->pace, right = y->confidence * y->pace;
    if (left != right)
        return left > right ? -1 : 1;
    if (x->pace != y->pace)
        return x->pace > y->pace ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/*
 * Compared with the truth of recordings that were cut short, confidence is too low where most blocks are freed and many
 * ticks were seen: of such stacks with 50 to 70 %, 26 of 28 leaked. Of stacks that keep their blocks, half did.
 */
static void calibrate(struct dp_leaks_evidence *e, size_t n_ticks)
{
    if (n_ticks < TICKS_LONG || e->freed < TURNED_OVER || e->kind == DP_LEAKS_DOUBLING || e->confidence <= 0)
        return;
    double other = 1 / (ODDS_LONG * e->confidence + 1 - e->confidence);
    e->confidence *= ODDS_LONG * other;
    e->ended *= other;
    e->by_load *= other;
    e->chance *= other;
}

/*
 * A program may copy a table, or replace its entries, from another place. Then one stack loses blocks and another stack
 * with the same innermost function gets them: the memory has moved and not grown. So *joined is the curve plus those of
 * such stacks that lost blocks since the first half of the time and got hardly any new ones.
 *
 * False: there are none, or blocks were not moved: at some point these had lost more, or less, than the curve had got,
 * by more than chance. So what is freed while another stack of the same function leaks does not hide it.
 */
static bool join_sisters(const struct dp_leaks *r, const struct dp_leaks_process *p, size_t end,
                         const struct dp_leaks_curve *curve, struct dp_leaks_curve *joined)
{
    size_t last = p->n_points ? p->n_points - 1 : 0, begin = last;
    *joined = *curve;
    for (size_t i = p->first_curve; i < end; i++) {
        const struct dp_leaks_curve *c = &r->series.curves.at[i];
        size_t most = 0;
        double came = 0;
        for (size_t k = 1; k <= last; k++)
            most = c->samples[k] > c->samples[most] ? k : most;
        for (size_t k = most + 1; k <= last; k++)
            came += c->allocated_samples[k];
        double lost = c->samples[most] - c->samples[last];
        if (c == curve || lost < 1 || came > lost / 10 ||
            2 * (p->times_ns[most] - p->start_ns) > p->times_ns[last] - p->start_ns ||
            !dp_leaks_series_is_sister(&r->series, curve->stack, c->stack))
            continue;
        for (size_t k = 0; k <= last; k++) {
            joined->bytes[k] += c->bytes[k];
            joined->samples[k] += c->samples[k];
            joined->allocated_samples[k] += c->allocated_samples[k];
            joined->allocated_objects[k] += c->allocated_objects[k];
        }
        joined->end_bytes += c->end_bytes;
        begin = most < begin ? most : begin;
    }
    for (size_t k = begin; k <= last; k++) {
        double got = curve->samples[k] - curve->samples[begin], more = joined->samples[k] - joined->samples[begin];
        if (fabs(more) > MOVED * sqrt(fabs(got) + fabs(got - more) + 1))
            return false;
    }
    return begin < last;
}

/* The curves of a process. */
static int judge_process(struct dp_leaks *r, const struct dp_leaks_process *p, size_t end, bool is_in_use)
{
    double all_growth = 0, work_ns;
    size_t n_ticks = dp_leaks_clock_work(p, r->series.curves.at + p->first_curve, end - p->first_curve, &work_ns);
    double doubt = n_ticks < TICKS_FEW ? DOUBT_OF_FEW : DOUBT;
    for (size_t i = p->first_curve; i < end; i++)
        all_growth += dp_leaks_growth(p, &r->series.curves.at[i]);
    for (size_t i = p->first_curve; i < end; i++) {
        const struct dp_leaks_curve *curve = &r->series.curves.at[i];
        struct dp_leaks_evidence e = dp_leaks_evidence_of(p, curve, all_growth);
        struct dp_leaks_curve joined;
        if ((e.confidence >= doubt || e.is_open) && join_sisters(r, p, end, curve, &joined))
            e = dp_leaks_evidence_of(p, &joined, all_growth);
        double bytes = p->n_points ? curve->bytes[p->n_points - 1] : curve->end_bytes;
        if (is_in_use)
            r->in_use += p->at_exit ? curve->end_bytes : bytes, r->in_use_before += bytes;
        size_t n_least = e.freed > FREED ? TICKS_LEAST : TICKS_KEPT;
        bool is_long = n_ticks >= n_least || e.kind == DP_LEAKS_DOUBLING; /* each time it doubled is work */
        bool is_suspect = e.confidence >= doubt || e.is_open;
        calibrate(&e, n_ticks);
        bool is_leak = e.confidence >= r->least && e.bytes_per_hour > 0 && is_long;
        if (is_leak) {
            struct dp_leaks_evidence by_cpu = dp_leaks_evidence_by_cpu(p, curve, all_growth);
            is_leak = by_cpu.confidence >= fmin(r->least, BY_CPU);
            e = is_leak ? e : by_cpu; /* which says why not */
        }
        if (is_leak || is_suspect) {
            if (add(r, curve, &e, bytes, is_leak, is_long && e.bytes_per_hour > 0))
                return -ENOMEM;
            continue;
        }
        struct dp_leaks_tally *tally = curve->n_own == DP_QUERY_NO_OWN                        ? &r->libraries
                                       : e.kind == DP_LEAKS_FILLED || e.kind == DP_LEAKS_ONCE ? &r->filled
                                                                                              : &r->steady;
        tally->n += bytes > 0;
        tally->bytes += bytes;
    }
    return 0;
}

bool dp_leaks_may_be_filling(const struct dp_leaks *r, const struct dp_leaks_row *row)
{
    const struct dp_leaks_evidence *e = &row->evidence;
    return e->freed <= FREED && e->kind != DP_LEAKS_DOUBLING && r->n_ticks < TICKS_FEW;
}

/* ---- what would settle it --------------------------------------------------------------------------------------- */

/* The largest power of two of bytes that is at most `rate`, as a value of heap_rate. */
static void print_rate(char text[32], double rate)
{
    int64_t bytes = 1;
    while ((double)(bytes * 2) <= rate)
        bytes *= 2;
    const char *unit = bytes >= 1 << 20 ? "M" : bytes >= 1024 ? "k" : "";
    snprintf(text, 32, "%lld%s",
             (long long)(bytes >= 1 << 20 ? bytes >> 20
                         : bytes >= 1024  ? bytes >> 10
                                          : bytes),
             unit);
}

/* Of blocks that are kept, those in use tell of an end; of blocks that turn over, also those that were freed. */
static double samples_of(const struct dp_leaks_evidence *e)
{
    return e->freed > FREED ? e->n_sampled : e->n_left;
}

static void describe_needs(struct dp_leaks *r, const struct dp_leaks_process *p)
{
    const struct dp_leaks_row *first = r->suspects.n ? &r->suspects.at[0] : NULL;
    if (!p->n_ticks && p->life_ns >= LONG_NS) {
        snprintf(
            r->needs, sizeof r->needs,
            "no tick in the %.0f s of the program: shorter interval=; or, if it has one thread and allocates only in "
            "libc, wall_rate=1s or listen=",
            (double)p->life_ns / 1e9);
        return;
    }
    if (!p->n_ticks) {
        snprintf(r->needs, sizeof r->needs, "no tick before the end of the program: run longer, or interval=100ms");
        return;
    }
    double all_seconds = (double)(p->times_ns[p->n_points - 1] - p->start_ns) / 1e9;
    bool is_idle = (first && first->evidence.by_cpu) || /* it is not ticks that are missing */
                   (r->n_ticks < TICKS_WANTED && p->n_ticks >= TICKS_WANTED);
    double seconds = is_idle ? all_seconds : r->work_ns / 1e9,
           samples = first ? samples_of(&first->evidence) : r->n_samples;
    double longer = seconds;
    char rate[32] = "", of_it[32] = "", of_all[48] = "";
    bool is_by_rate = samples < SAMPLES_FEW && p->rate > 1; /* nobody waits so long for samples */
    if (is_idle)
        snprintf(of_all, sizeof of_all, " of %zu had work", p->n_ticks);
    int n =
        snprintf(r->needs, sizeof r->needs, "%zu tick%s%s, %.0f sample%s: %s", r->n_ticks, r->n_ticks == 1 ? "" : "s",
                 of_all, samples, samples >= 0.5 && samples < 1.5 ? "" : "s", is_idle ? "give it more work, or " : "");
    if (samples < SAMPLES_WANTED) {
        print_rate(rate, fmax((double)p->rate * fmax(samples, 1) / SAMPLES_WANTED / 2, 1));
        longer = is_by_rate ? longer : fmax(longer, seconds * (SAMPLES_WANTED / fmax(samples, 1) - 1));
    }
    if (r->n_ticks < TICKS_WANTED && r->n_ticks)
        longer = fmax(longer, seconds * ((double)TICKS_WANTED / (double)r->n_ticks - 1));
    double interval = all_seconds / (double)p->n_ticks, wanted = seconds >= 20 ? 1 : 0.1;
    if (r->n_ticks < TICKS_WANTED && !is_idle && seconds < 120 && interval > 2 * wanted)
        snprintf(of_it, sizeof of_it, ", or interval=%s", seconds >= 20 ? "1s" : "100ms");
    if (is_by_rate && r->n_ticks >= TICKS_WANTED)
        snprintf(r->needs + n, sizeof r->needs - (size_t)n, "heap_rate=%s", rate);
    else if (is_by_rate)
        snprintf(r->needs + n, sizeof r->needs - (size_t)n, "run %.0f s more with heap_rate=%s%s",
                 ceil(fmax(longer, 1)), rate, of_it);
    else
        snprintf(r->needs + n, sizeof r->needs - (size_t)n, "run %.0f s more%s%s%s", ceil(fmax(longer, 1)),
                 *rate ? ", or heap_rate=" : "", rate, of_it);
}

/* The process with most work is the one that was looked at. */
static void conclude(struct dp_leaks *r)
{
    const struct dp_leaks_process *most = NULL;
    double most_work = -1;
    for (size_t i = 0; i < r->series.processes.n; i++) {
        const struct dp_leaks_process *p = &r->series.processes.at[i];
        size_t end = i + 1 < r->series.processes.n ? p[1].first_curve : r->series.curves.n;
        double work = 0, work_ns;
        for (size_t k = 0; k < p->n_points; k++)
            work += p->work[k];
        r->n_samples += work;
        if (work <= most_work)
            continue;
        most_work = work;
        most = p;
        r->n_ticks = dp_leaks_clock_work(p, r->series.curves.at + p->first_curve, end - p->first_curve, &work_ns);
        r->work_ns = work_ns;
    }
    bool is_enough = r->n_ticks >= TICKS_WANTED && most_work >= SAMPLES_WANTED;
    r->verdict = r->leaks.n ? DP_LEAKS_LEAK : r->suspects.n || !is_enough ? DP_LEAKS_CANNOT_TELL : DP_LEAKS_NO_LEAK;
    if (r->verdict == DP_LEAKS_CANNOT_TELL && most)
        describe_needs(r, most);
}

int dp_leaks_judge(struct dp_leaks *r)
{
    r->series.view = r->view;
    r->series.from_own = true;
    int status = dp_leaks_series_read(&r->series);
    if (!status && !r->series.has_inuse) {
        dp_query_print_error(r->view->verb, "%s: no heap profile: it has no sample type inuse_space",
                             r->view->paths.at[0]);
        status = DP_EXIT_FAILED;
    }
    bool all_ended = true;
    for (size_t i = 0; i < r->series.processes.n; i++)
        all_ended &= r->series.processes.at[i].ended;
    for (size_t i = 0; i < r->series.processes.n && !status; i++) {
        const struct dp_leaks_process *p = &r->series.processes.at[i];
        size_t end = i + 1 < r->series.processes.n ? p[1].first_curve : r->series.curves.n;
        status = judge_process(r, p, end, all_ended || !p->ended); /* memory of an ended process is not in use */
        if (status) {
            dp_query_print_error(r->view->verb, "out of memory");
            return DP_EXIT_FAILED;
        }
    }
    if (status)
        return status;
    if (r->leaks.n)
        qsort(r->leaks.at, r->leaks.n, sizeof *r->leaks.at, by_weight);
    if (r->suspects.n)
        qsort(r->suspects.at, r->suspects.n, sizeof *r->suspects.at, by_weight);
    conclude(r);
    return 0;
}

void dp_leaks_fini(struct dp_leaks *r)
{
    dp_vec_fini(&r->leaks);
    dp_vec_fini(&r->suspects);
    dp_vec_fini(&r->of_stack);
    dp_leaks_series_fini(&r->series);
}
