/* SPDX-License-Identifier: MIT */
/*
 * host/locks/lock_rows.c - gives each futex row its lock kind, merges equal rows, and drops rows of idle waiting.
 *
 * Records of one futex lock differ in what a profile does not show: the class of the wait, and leaf frames inside the
 * lock's library. A futex that is part of a mutex may also look like a mutex of libc: [hand-over] has no frame of
 * either, and one call through a pointer may unlock both. So the rows of futexes, and those that have the leaf frame of
 * one, are brought behind all others, sorted by a hash of what is shown, and equal neighbours become one row. The
 * baseline has an entry for each record, so the rows that were taken in stand behind the others, for dp_delta_commit
 * alone: an addition for the record taken in, a subtraction for the one that has its values.
 *
 * Nothing here allocates but the vector's own memory: profiles are also written by crash handlers.
 */
#include "host/locks/lock_rows.h"

#include "base/hash.h"
#include "host/locks/chain.h"
#include "host/locks/futex_class.h"
#include "host/table/labels.h"
#include "host/locks/lock_names.h"
#include "host/report/table_source.h"

#include <string.h>

/* What a profile shows of a stack. */
struct shown {
    const dp_frame_id *frames;
    dp_frame_id called; /* stands before them; 0: none */
    uint32_t depth, cut;
};

static struct shown shown_of(unsigned kind, const struct dp_record *record)
{
    unsigned inside;
    dp_frame_id called = dp_report_table_frame_called(kind, record, &inside);
    return (struct shown){.frames = dp_table_frames(record) + inside,
                          .called = record->depth - inside < DP_STACK_MAX ? called : 0,
                          .depth = record->depth - inside,
                          .cut = record->cut};
}

/* The stacks of a row: one, or of a chain the holder's and, where it is known, the waiter's. Returns their number. */
static unsigned stacks_of(unsigned kind, const struct dp_row *row, struct shown stacks[2])
{
    const struct dp_record *record = dp_table_record(kind, row->id);
    struct dp_chain chain;
    if (kind != DP_KIND_CHAIN || !dp_chain_of(record, &chain)) {
        stacks[0] = shown_of(kind, record);
        return 1;
    }
    stacks[0] = shown_of(DP_KIND_MUTEX, dp_table_record(DP_KIND_MUTEX, chain.holder));
    if (chain.waiter == DP_CHAIN_UNKNOWN)
        return 1;
    stacks[1] = shown_of(DP_KIND_BLOCK, dp_table_record(DP_KIND_BLOCK, chain.waiter));
    return 2;
}

/* The labels that a profile shows of a row, as one number. */
static uint64_t labels_of(unsigned kind, const struct dp_row *row)
{
    const struct dp_record *record = dp_table_record(kind, row->id);
    bool shown;
    return (uint64_t)dp_labels_of_set(record->labels) << 32 | dp_futex_lock_of(kind, record, &shown);
}

static int64_t hash_of(unsigned kind, const struct dp_row *row)
{
    struct shown stacks[2];
    unsigned n = stacks_of(kind, row, stacks);
    uint64_t hash = labels_of(kind, row);
    for (unsigned i = 0; i < n; i++) {
        const struct shown *s = &stacks[i];
        uint64_t seed = dp_hash_mix(s->called) ^ dp_hash_mix(hash << 1 | s->cut);
        hash = dp_hash_bytes(s->frames, s->depth * sizeof *s->frames, seed);
    }
    return (int64_t)hash;
}

static bool is_same(const struct shown *x, const struct shown *y)
{
    return x->called == y->called && x->depth == y->depth && x->cut == y->cut &&
           !memcmp(x->frames, y->frames, x->depth * sizeof *x->frames);
}

static bool looks_like(unsigned kind, const struct dp_row *a, const struct dp_row *b)
{
    struct shown x[2], y[2];
    unsigned n = stacks_of(kind, a, x);
    return stacks_of(kind, b, y) == n && labels_of(kind, a) == labels_of(kind, b) && is_same(&x[0], &y[0]) &&
           (n == 1 || is_same(&x[1], &y[1]));
}

/* By the hash, which stands in a value that profiles of locks have no use for. */
static void sort(struct dp_row *at, size_t n)
{
    for (size_t gap = n / 2; gap; gap /= 2)
        for (size_t i = gap; i < n; i++) {
            struct dp_row row = at[i];
            size_t j = i;
            for (; j >= gap && at[j - gap].values[3] > row.values[3]; j -= gap)
                at[j] = at[j - gap];
            at[j] = row;
        }
}

static bool is_shown(unsigned kind, unsigned locks, const struct dp_row *row)
{
    bool shown;
    unsigned lock = dp_futex_lock_of(kind, dp_table_record(kind, row->id), &shown);
    return shown && (!locks || (locks >> lock & 1));
}

static bool is_futex(unsigned kind, const struct dp_row *row)
{
    return dp_labels_is_futex(dp_table_record(kind, row->id)->labels);
}

/* The leaf frames of futexes, by hash: a frame that is not there is certainly none. */
enum { LEAF_BITS = 4096 };
struct leaves {
    uint64_t bits[LEAF_BITS / 64];
};

static uint64_t hash_of_leaf(unsigned kind, const struct dp_row *row)
{
    struct shown stacks[2];
    stacks_of(kind, row, stacks);
    return dp_hash_mix(stacks[0].frames[0]) % LEAF_BITS;
}

static void add_leaf(struct leaves *leaves, unsigned kind, const struct dp_row *row)
{
    uint64_t at = hash_of_leaf(kind, row);
    leaves->bits[at / 64] |= (uint64_t)1 << at % 64;
}

static bool has_leaf(const struct leaves *leaves, unsigned kind, const struct dp_row *row)
{
    uint64_t at = hash_of_leaf(kind, row);
    return leaves->bits[at / 64] >> at % 64 & 1;
}

/* Drops what is not shown. Returns the number of futexes, and their leaves. */
static size_t drop(unsigned kind, unsigned locks, struct dp_rows *rows, struct leaves *leaves)
{
    size_t n = 0, n_futexes = 0;
    for (size_t i = 0; i < rows->n; i++) {
        struct dp_row *row = &rows->at[i];
        if (!is_shown(kind, locks, row))
            continue;
        if (is_futex(kind, row)) {
            add_leaf(leaves, kind, row);
            n_futexes++;
        }
        rows->at[n++] = *row;
    }
    rows->n = n;
    return n_futexes;
}

/* [overflow] stays: emit.c makes one sample of its rows. */
static bool may_look_like_a_futex(unsigned kind, const struct leaves *leaves, const struct dp_row *row)
{
    return row->id && has_leaf(leaves, kind, row);
}

/* Drops what is not shown, and brings the rows that may be equal to the end. Returns the number of the others. */
static size_t part(unsigned kind, unsigned locks, struct dp_rows *rows)
{
    struct leaves leaves = {0};
    size_t n_others = 0;
    if (!drop(kind, locks, rows, &leaves))
        return rows->n;
    for (size_t i = 0; i < rows->n; i++)
        if (!may_look_like_a_futex(kind, &leaves, &rows->at[i])) {
            struct dp_row row = rows->at[i];
            rows->at[i] = rows->at[n_others];
            rows->at[n_others++] = row;
        }
    return n_others;
}

/* Takes together the equal ones of the sorted rows from `first` on. Without memory for that they stay apart. */
static void join(unsigned kind, struct dp_rows *rows, size_t first)
{
    size_t n = first, n_more = 0, all = rows->n;
    if (all - first < 2 || !dp_vec_room(rows, 2 * (all - first)))
        return;
    struct dp_row *more = rows->at + all; /* in memory of its own until the number of rows is known */
    for (size_t i = first; i < all; i++) {
        struct dp_row *row = &rows->at[i], *last = &rows->at[n - (n > first)];
        bool same = n > first && last->values[3] == row->values[3] && looks_like(kind, last, row);
        if (!same) {
            rows->at[n++] = *row;
            continue;
        }
        more[n_more++] = (struct dp_row){.id = row->id, .values = {row->values[0], row->values[1]}};
        more[n_more++] = (struct dp_row){.id = last->id, .values = {-row->values[0], -row->values[1]}};
        last->values[0] += row->values[0];
        last->values[1] += row->values[1];
    }
    memmove(rows->at + n, more, n_more * sizeof *more);
    rows->n = n;
    rows->n_more = n_more;
}

int dp_lock_rows_scan(const struct dp_delta_rules *rules, unsigned locks, enum dp_symbolize symbolize,
                      struct dp_symbols_files *files, struct dp_baseline *base, struct dp_rows *rows)
{
    unsigned kind = rules->kind;
    int err = dp_delta_scan(rules, locks, base, rows);
    if (err)
        return err;
    dp_lock_learn(kind, symbolize, files, rows);
    if (!rows->n)
        return 0;
    size_t first = part(kind, locks, rows);
    for (size_t i = first; i < rows->n; i++)
        rows->at[i].values[3] = hash_of(kind, &rows->at[i]);
    sort(rows->at + first, rows->n - first);
    join(kind, rows, first);
    for (size_t i = first; i < rows->n; i++)
        rows->at[i].values[3] = 0;
    return 0;
}
