/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <stdlib.h>

#include "host/report/fold.h"

static uint64_t seed = 88172645463325252u;
static uint64_t random_bits(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed;
}

static int descending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

TEST(the_heaviest_stay_and_just_as_many_as_asked)
{
    static int64_t weights[1000], scratch[1000], sorted[1000];
    for (int turn = 0; turn < 500; turn++) {
        size_t n = 1 + random_bits() % 1000, keep = random_bits() % (n + 2);
        uint64_t values = 1 + random_bits() % (turn & 1 ? 5 : 1000000); /* every other turn full of ties */
        for (size_t i = 0; i < n; i++)
            weights[i] = scratch[i] = sorted[i] = (int64_t)(random_bits() % values);
        qsort(sorted, n, sizeof *sorted, descending);
        struct dp_fold fold;
        dp_fold_plan(&fold, scratch, n, keep);
        size_t kept = 0;
        int64_t sum = 0, expected = 0;
        for (size_t i = 0; i < n; i++)
            if (dp_fold_keeps(&fold, weights[i]))
                kept++, sum += weights[i];
        size_t want = keep < n ? keep : n;
        for (size_t i = 0; i < want; i++)
            expected += sorted[i];
        assert_int_equal(kept, want);
        assert_int_equal(sum, expected);
    }
}

UNIT(NULL, NULL)
