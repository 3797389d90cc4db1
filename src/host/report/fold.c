/* SPDX-License-Identifier: MIT */
/*
 * host/report/fold.c - finds the n-th largest weight by quickselect (Hoare's FIND), in place and in linear time on
 * average. The caller then keeps or folds rows in their own order, in one more pass.
 */
#include "host/report/fold.h"

static void swap(int64_t *a, int64_t *b)
{
    int64_t t = *a;
    *a = *b;
    *b = t;
}

/* Reorders w so that w[k] has the value that a descending sort would put there. */
static int64_t select_kth(int64_t *w, size_t n, size_t k)
{
    size_t lo = 0, hi = n - 1;
    while (lo < hi) {
        int64_t pivot = w[lo + (hi - lo) / 2];
        size_t i = lo, j = hi;
        for (;;) {
            while (w[i] > pivot)
                i++;
            while (w[j] < pivot)
                j--;
            if (i >= j)
                break;
            swap(&w[i++], &w[j--]);
        }
        /* here w[lo..j] >= pivot >= w[j+1..hi] */
        if (k <= j)
            hi = j;
        else
            lo = j + 1;
    }
    return w[k];
}

void dp_fold_plan(struct dp_fold *fold, int64_t *weights, size_t n, size_t n_keep)
{
    fold->least = INT64_MIN;
    fold->ties = SIZE_MAX;
    if (n_keep >= n)
        return;
    fold->ties = 0;
    fold->least = INT64_MAX;
    if (!n_keep)
        return;
    fold->least = select_kth(weights, n, n_keep - 1);
    fold->ties = n_keep;
    for (size_t i = 0; i < n; i++)
        fold->ties -= weights[i] > fold->least;
}

bool dp_fold_keeps(struct dp_fold *fold, int64_t weight)
{
    if (weight != fold->least)
        return weight > fold->least;
    if (!fold->ties)
        return false;
    fold->ties--;
    return true;
}
