/* SPDX-License-Identifier: MIT */
/*
 * delta/delta.c - computes what changed since a baseline: reads the counters and subtracts in one pass. Counters and
 * baseline are two dense arrays in the same order, so a record that did not change costs two sequential loads and no
 * mispredicted branch.
 *
 * 1. Rows hold differences, and commit adds them to the baseline: so the baseline moves by exactly what was delivered,
 *    even if the counters changed meanwhile.
 * 2. An event adds to two counters, its bytes first, and a scan may run between the two adds. A row without any object
 *    leaves such bytes to the next scan. A row with objects shows the bytes now, and the object in the next scan: the
 *    sums over all scans are exact, but one row may have the bytes of one event too many.
 * 3. The baseline is grown before anything is delivered, so commit cannot fail.
 */
#include "delta/delta.h"

#include "record/futex_class.h"
#include "record/labels.h"
#include "record/wait.h"
#include "store/inherited.h"
#include "store/store.h"
#include "store/table.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

static struct dp_baseline_entry fork_base(unsigned kind, dp_record_id id)
{
    struct dp_baseline_entry e;
    dp_record_fork_base(kind, id, &e.n, &e.v);
    return e;
}

static int grow(unsigned kind, struct dp_baseline *base, size_t n)
{
    if (n <= base->n)
        return 0;
    if (!dp_vec_room(base, n - base->n))
        return -ENOMEM;
    for (; base->n < n; base->n++) {
        base->at[base->n] = fork_base(kind, (dp_record_id)base->n);
    }
    return 0;
}

/* Computes the row of one record against its baseline. False: nothing changed and nothing is in use. */
static inline bool subtract(const struct dp_counts *c, const struct dp_baseline_entry *b, bool heap, struct dp_row *row)
{
    int64_t n = c->n - b->n, v = c->v - b->v, in_n = 0, in_v = 0;
    if (heap) {
        in_n = c->n - c->free_n;
        in_v = c->v - c->free_v;
    }
    v = n || !heap ? v : 0; /* a wait that goes on adds time to a contention of before */
    in_v = in_n ? in_v : 0;
    if (__builtin_expect(!(n | v | in_n | in_v), 1))
        return false;
    row->values[0] = n;
    row->values[1] = v;
    row->values[2] = in_n;
    row->values[3] = in_v;
    return true;
}

static int keep(struct dp_rows *rows, const struct dp_row *row)
{
    struct dp_row *kept = dp_vec_push(rows);
    if (kept)
        *kept = *row;
    return kept ? 0 : -ENOMEM;
}

/* Moves memory inherited from before the fork out of the row into a separate row. */
static int split_inherited(struct dp_rows *rows, const struct dp_counts *counts, struct dp_row *row)
{
    struct dp_row inherited = {.id = row->id, .entry = DP_ROW_INHERITED};
    dp_inherited_read(row->id, counts, &inherited.values[2], &inherited.values[3]);
    if (!inherited.values[2])
        return 0;
    row->values[2] -= inherited.values[2];
    row->values[3] = row->values[2] ? row->values[3] - inherited.values[3] : 0;
    return keep(rows, &inherited);
}

/* Before the counters of a kind are read. */
static void prepare(unsigned kind)
{
    if (kind == DP_KIND_BLOCK)
        dp_wait_count_under_way();
    while (!dp_record_fork_copy_zero())
        sched_yield(); /* another thread is copying the zero: microseconds */
}

/* What a futex is part of is decided later. */
static bool is_filtered(unsigned kind, unsigned locks, dp_record_id id)
{
    uint32_t labels = dp_table_record(kind, id)->labels;
    return locks && !dp_labels_is_futex(labels) && !(locks >> dp_labels_lock(labels) & 1);
}

int dp_delta_scan(unsigned kind, unsigned locks, struct dp_baseline *base, struct dp_rows *rows)
{
    prepare(kind);
    rows->n_more = 0;
    uint32_t n = dp_table_count(kind);
    int err = base ? grow(kind, base, n) : 0;
    bool forked = kind == DP_KIND_HEAP && dp_record_epoch();
    for (uint32_t id = 0; !err && id < n; id++) {
        struct dp_baseline_entry origin;
        struct dp_counts counts;
        struct dp_row row;
        if (!base)
            origin = fork_base(kind, id);
        dp_table_read(kind, id, &counts);
        if (!subtract(&counts, base ? &base->at[id] : &origin, kind == DP_KIND_HEAP, &row))
            continue;
        if (is_filtered(kind, locks, id))
            continue;
        row.id = id;
        row.entry = 0;
        if (forked)
            err = split_inherited(rows, &counts, &row);
        if (!err && (row.values[0] | row.values[1] | row.values[2] | row.values[3]))
            err = keep(rows, &row);
    }
    return err;
}

void dp_delta_visit(unsigned kind, void (*fn)(void *ctx, unsigned lock, const int64_t *values), void *ctx)
{
    prepare(kind);
    uint32_t n = dp_table_count(kind);
    for (uint32_t id = 0; id < n; id++) {
        struct dp_baseline_entry origin = fork_base(kind, id);
        struct dp_counts counts;
        struct dp_row row;
        dp_table_read(kind, id, &counts);
        if (!subtract(&counts, &origin, kind == DP_KIND_HEAP, &row))
            continue;
        bool shown;
        unsigned lock = dp_futex_lock_of(kind, dp_table_record(kind, id), &shown);
        if (shown)
            fn(ctx, lock, row.values);
    }
}

void dp_delta_commit(struct dp_baseline *base, const struct dp_rows *rows)
{
    for (size_t i = 0; i < rows->n + rows->n_more; i++) {
        struct dp_baseline_entry *b = &base->at[rows->at[i].id];
        b->n += rows->at[i].values[0];
        b->v += rows->at[i].values[1];
    }
}
