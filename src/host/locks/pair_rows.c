/* SPDX-License-Identifier: MIT */
/*
 * host/locks/pair_rows.c - subtracts a baseline from the table of pairs. An entry of another generation belongs to
 * another pair: its baseline is 0. The baseline has its memory only once there are pairs.
 */
#include "host/locks/pair_rows.h"

#include <errno.h>
#include <string.h>

static int grow(struct dp_pairs_baseline *base)
{
    if (base->n)
        return 0;
    if (!dp_vec_room(base, DP_PAIRS_MOST))
        return -ENOMEM;
    memset(base->at, 0, DP_PAIRS_MOST * sizeof *base->at);
    base->n = DP_PAIRS_MOST;
    return 0;
}

/* By insertion: there are few, and a crash handler has no qsort. */
static void insert(struct dp_pair_rows *rows, const struct dp_pair *pair)
{
    size_t i = rows->n++;
    for (; i && rows->at[i - 1].ns < pair->ns; i--)
        rows->at[i] = rows->at[i - 1];
    rows->at[i] = *pair;
}

int dp_pairs_scan(struct dp_pairs_baseline *base, struct dp_pair_rows *rows)
{
    int err = 0;
    for (unsigned i = 0; !err && i < DP_PAIRS_MOST; i++) {
        struct dp_pair pair;
        if (!dp_pairs_read(i, &pair))
            continue;
        if (base && !(err = grow(base)) && base->at[i].generation == pair.generation) {
            pair.n -= base->at[i].n;
            pair.ns -= base->at[i].ns;
        }
        if (!err && !dp_vec_room(rows, 1))
            err = -ENOMEM;
        if (!err && pair.ns > 0)
            insert(rows, &pair);
    }
    return err;
}

void dp_pairs_commit(struct dp_pairs_baseline *base, const struct dp_pair_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++) {
        const struct dp_pair *pair = &rows->at[i];
        struct dp_pair_delivered *to = &base->at[pair->at];
        if (to->generation != pair->generation)
            *to = (struct dp_pair_delivered){.generation = pair->generation};
        to->n += pair->n;
        to->ns += pair->ns;
    }
}
