/* SPDX-License-Identifier: MIT */
/*
 * host/report/delta.c - computes what changed since a baseline: reads the counters and subtracts in one pass. Counters
 * and baseline are two dense arrays in the same order, so a record that did not change costs two sequential loads and
 * no mispredicted branch.
 *
 * 1. Rows hold differences, and commit adds them to the baseline: so the baseline moves by exactly what was delivered,
 *    even if the counters changed meanwhile.
 * 2. An event adds to two counters, its bytes first, and a scan may run between the two adds. A row without any object
 *    leaves such bytes to the next scan. A row with objects shows the bytes now, and the object in the next scan: the
 *    sums over all scans are exact, but one row may have the bytes of one event too many.
 * 3. The baseline is grown before anything is delivered, so commit cannot fail. Rows of records without an entry do not
 *    move it: such a record came after the scan (age.c reads lifetimes later), or its values are in a sum.
 * 4. A scan never fails. Where there is no memory for all rows, a first pass counts them by the power of two of their
 *    weight, and only the heavier classes are kept; the others are summed up. There is no memory to remember which
 * these were until the commit: so their baseline moves in the scan, and `owed` holds what it moved by until a commit.
 * If there is no memory for the baseline itself, the records without an entry have one in common, `beyond`.
 */
#include "host/report/delta.h"

#include "host/table/record.h"
#include "host/table/table.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

static struct dp_baseline_entry fork_base(unsigned kind, dp_record_id id)
{
    struct dp_baseline_entry e;
    dp_record_fork_base(kind, id, &e.n, &e.v);
    return e;
}

static void grow(unsigned kind, struct dp_baseline *base, size_t n)
{
    if (n <= base->n || base->is_full)
        return;
    if (!dp_vec_room(base, n - base->n)) {
        base->is_full = true;
        return;
    }
    for (; base->n < n; base->n++)
        base->at[base->n] = fork_base(kind, (dp_record_id)base->n);
}

/* Computes the row of one record against its baseline. False: nothing changed and nothing is in use. */
static inline bool subtract(const struct dp_counts *c, const struct dp_baseline_entry *b, bool has_levels,
                            struct dp_row *row)
{
    int64_t n = c->n - b->n, v = c->v - b->v, in_n = 0, in_v = 0;
    if (has_levels) {
        in_n = c->n - c->free_n;
        in_v = c->v - c->free_v;
    }
    v = n || !has_levels ? v : 0; /* a wait that goes on adds time to a contention of before */
    in_v = in_n ? in_v : 0;
    if (__builtin_expect(!(n | v | in_n | in_v), 1))
        return false;
    /* A file may have a wait up to a later time than the tables of a process that was killed in it: nothing is new. */
    row->values[0] = !has_levels && n < 0 ? 0 : n;
    row->values[1] = !has_levels && v < 0 ? 0 : v;
    row->values[2] = in_n;
    row->values[3] = in_v;
    return true;
}

/* Before the counters of a kind are read. */
static void prepare(const struct dp_delta_rules *rules)
{
    if (rules->prepare)
        rules->prepare();
    while (!dp_record_fork_copy_zero())
        sched_yield(); /* another thread is copying the zero: microseconds */
}

static bool is_filtered(const struct dp_delta_rules *rules, unsigned locks, dp_record_id id)
{
    return locks && rules->is_filtered && rules->is_filtered(dp_table_record(rules->kind, id), locks);
}

/* The lock kind of a record; 0: none. *shown: whether the profile shows it. */
static unsigned lock_of(const struct dp_delta_rules *rules, dp_record_id id, bool *shown)
{
    *shown = true;
    return rules->lock_of ? rules->lock_of(dp_table_record(rules->kind, id), shown) : 0;
}

enum { CLASSES = 64, ROWS_EACH = 2 /* of a record, at most */, REPORT_BYTES = 128 << 10 };

/* A scan of the table. */
struct scan {
    const struct dp_delta_rules *rules;
    unsigned locks;
    struct dp_baseline *base;
    struct dp_rows *rows;
    struct dp_baseline_entry beyond;            /* sum of the records without an entry in base */
    struct dp_row sums[2];                      /* own, inherited */
    int least;                                  /* rows of a lower class are summed up */
    bool is_tight;                              /* rows has all the memory that it may use */
    size_t sizes[CLASSES];                      /* rows by class */
    void (*fn)(struct scan *, struct dp_row *); /* gets each row */
};

/* The weight of a row, bytes or time, as a power of two. */
static int class_of(const struct dp_row *row)
{
    uint64_t weight = 0;
    for (int i = 1; i < DP_VALUES_MAX; i += 2)
        weight |= (uint64_t)(row->values[i] < 0 ? 0 : row->values[i]);
    return weight ? 63 - __builtin_clzll(weight) : 0;
}

static void count(struct scan *s, struct dp_row *row)
{
    s->sizes[class_of(row)]++;
}

/* A row that is not kept. Its first two values go by way of base->owed. */
static void drop_row(struct scan *s, struct dp_row *row)
{
    struct dp_baseline *base = s->base;
    bool shown;
    lock_of(s->rules, row->id, &shown);
    if (!shown)
        return; /* it stays for a later scan */
    if (base) {
        struct dp_baseline_entry *to = row->id < base->n ? &base->owed : &s->beyond;
        to->n += row->values[0];
        to->v += row->values[1];
        if (row->id < base->n) {
            base->at[row->id].n += row->values[0];
            base->at[row->id].v += row->values[1];
        }
    }
    struct dp_row *sum = &s->sums[row->entry & DP_ROW_INHERITED];
    for (int i = 0; i < DP_VALUES_MAX; i++)
        sum->values[i] += row->values[i];
    s->rows->n_summed++;
}

static void add_row(struct scan *s, struct dp_row *row)
{
    bool has_entry = !s->base || row->id < s->base->n;
    bool fits = class_of(row) >= s->least && (!s->is_tight || s->rows->n < s->rows->cap);
    struct dp_row *kept = has_entry && fits ? dp_vec_push(s->rows) : NULL;
    if (kept)
        *kept = *row;
    else
        drop_row(s, row);
}

/* Moves memory inherited from before the fork out of the row into a separate row. */
static void split_inherited(struct scan *s, const struct dp_counts *counts, struct dp_row *row)
{
    struct dp_row inherited = {.id = row->id, .entry = DP_ROW_INHERITED};
    s->rules->read_inherited(row->id, counts, &inherited.values[2], &inherited.values[3]);
    if (!inherited.values[2])
        return;
    row->values[2] -= inherited.values[2];
    row->values[3] = row->values[2] ? row->values[3] - inherited.values[3] : 0;
    s->fn(s, &inherited);
}

/* Makes the counters say that so much is in use as at the moment of the rules. */
static void set_level(const struct dp_delta_rules *rules, dp_record_id id, struct dp_counts *counts)
{
    int64_t n, v;
    rules->read_level(id, &n, &v);
    counts->free_n = counts->n - n;
    counts->free_v = counts->v - v;
}

static void visit(struct scan *s, uint32_t n)
{
    const struct dp_baseline *base = s->base;
    unsigned kind = s->rules->kind;
    bool has_levels = s->rules->has_levels, forked = s->rules->read_inherited && dp_record_epoch();
    for (uint32_t id = 0; id < n; id++) {
        struct dp_baseline_entry origin;
        struct dp_counts counts;
        struct dp_row row;
        bool has_entry = base && id < base->n;
        if (!has_entry)
            origin = fork_base(kind, id);
        dp_table_read(kind, id, &counts);
        if (s->rules->read_level)
            set_level(s->rules, id, &counts);
        if (!subtract(&counts, has_entry ? &base->at[id] : &origin, has_levels, &row))
            continue;
        if (is_filtered(s->rules, s->locks, id))
            continue;
        row.id = id;
        row.entry = 0;
        if (forked)
            split_inherited(s, &counts, &row);
        if (row.values[0] | row.values[1] | row.values[2] | row.values[3])
            s->fn(s, &row);
    }
}

/*
 * Makes room for the rows, and leaves REPORT_BYTES for the rest of the profile. Where that is too little, finds the
 * class from which on rows are kept.
 */
static void plan(struct scan *s, uint32_t n)
{
    struct dp_rows *rows = s->rows;
    size_t left = dp_mem_left(), n_all = 0, n_kept = 0;
    size_t most = rows->cap + (left > REPORT_BYTES ? (left - REPORT_BYTES) / sizeof *rows->at : 0);
    if (most >= ROWS_EACH * (size_t)n)
        return;
    s->fn = count;
    visit(s, n);
    s->fn = add_row;
    s->is_tight = true;
    for (int i = 0; i < CLASSES; i++)
        n_all += s->sizes[i];
    most = most < n_all ? most : n_all;
    while (most > rows->cap && !dp_vec_room(rows, most))
        most /= 2;
    if (most < n_all)
        for (s->least = CLASSES; s->least && n_kept + s->sizes[s->least - 1] <= most;)
            n_kept += s->sizes[--s->least];
}

/* Adds what changed in the records without an entry, and what earlier scans did not deliver. */
static void add_owed(struct scan *s)
{
    struct dp_baseline *base = s->base;
    base->owed.n += s->beyond.n - base->beyond.n;
    base->owed.v += s->beyond.v - base->beyond.v;
    base->beyond = s->beyond;
    s->sums[0].values[0] = base->owed.n;
    s->sums[0].values[1] = base->owed.v;
}

/* Puts the sums first; the rows stay in the order of their records. */
static int insert_sums(struct scan *s)
{
    struct dp_rows *rows = s->rows;
    for (unsigned i = 0; i < 2; i++) {
        struct dp_row *sum = &s->sums[i];
        if (!(sum->values[0] | sum->values[1] | sum->values[2] | sum->values[3]))
            continue;
        sum->entry = DP_ROW_SUMMED | (i ? DP_ROW_INHERITED : 0);
        struct dp_row *last = dp_vec_push(rows);
        if (!last)
            return -ENOMEM;
        memmove(rows->at + 1, rows->at, (rows->n - 1) * sizeof *rows->at);
        rows->at[0] = *sum;
    }
    return 0;
}

int dp_delta_scan(const struct dp_delta_rules *rules, unsigned locks, struct dp_baseline *base, struct dp_rows *rows)
{
    prepare(rules);
    uint32_t n = dp_table_count(rules->kind);
    struct scan s = {.rules = rules, .locks = locks, .base = base, .rows = rows, .fn = add_row};
    rows->n_more = rows->n_summed = 0;
    if (base)
        grow(rules->kind, base, n);
    plan(&s, n);
    visit(&s, n);
    if (base)
        add_owed(&s);
    return insert_sums(&s);
}

void dp_delta_visit(const struct dp_delta_rules *rules, void (*fn)(void *ctx, unsigned lock, const int64_t *values),
                    void *ctx)
{
    unsigned kind = rules->kind;
    prepare(rules);
    uint32_t n = dp_table_count(kind);
    for (uint32_t id = 0; id < n; id++) {
        struct dp_baseline_entry origin = fork_base(kind, id);
        struct dp_counts counts;
        struct dp_row row;
        dp_table_read(kind, id, &counts);
        if (!subtract(&counts, &origin, rules->has_levels, &row))
            continue;
        bool shown;
        unsigned lock = lock_of(rules, id, &shown);
        if (shown)
            fn(ctx, lock, row.values);
    }
}

void dp_delta_commit(struct dp_baseline *base, const struct dp_rows *rows)
{
    for (size_t i = 0; i < rows->n + rows->n_more; i++) {
        bool is_sum = rows->at[i].entry & DP_ROW_SUMMED;
        if (!is_sum && rows->at[i].id >= base->n)
            continue;
        struct dp_baseline_entry *b = is_sum ? &base->owed : &base->at[rows->at[i].id];
        b->n += is_sum ? -rows->at[i].values[0] : rows->at[i].values[0];
        b->v += is_sum ? -rows->at[i].values[1] : rows->at[i].values[1];
    }
}

void dp_delta_restart(struct dp_baseline *base)
{
    dp_vec_clear(base);
    base->is_full = false;
    base->owed = base->beyond = (struct dp_baseline_entry){0};
}
