/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/stats.h"
#include "host/locks/pair_rows.h"

/* Each test takes new record numbers from here, so that tests do not share pairs. */
static dp_record_id next_id = 1;

static int start(void **state)
{
    dp_mem_cap(64 << 20);
    return dp_pairs_init();
}

static bool find(dp_record_id waiter, dp_record_id holder, struct dp_pair *pair)
{
    for (unsigned i = 0; i < DP_PAIRS_MOST; i++)
        if (dp_pairs_read(i, pair) && pair->waiter == waiter && pair->holder == holder)
            return true;
    return false;
}

static void a_pair_is_the_sum_of_its_notes(void **state)
{
    dp_record_id waiter = next_id++, holder = next_id++;
    struct dp_pair pair;
    for (int i = 1; i <= 100; i++) {
        dp_pairs_note(waiter, holder, 2, i);
        dp_pairs_note(holder, waiter, 1, 1);
    }
    assert_true(find(waiter, holder, &pair));
    assert_int_equal(pair.n, 200);
    assert_int_equal(pair.ns, 5050);
    assert_true(find(holder, waiter, &pair));
    assert_int_equal(pair.ns, 100);
}

/* Each round adds 1 ms to each of 50 large pairs and 1 us to each of 100 new pairs: the large ones stay, exact. */
static void the_largest_of_thousands_stay(void **state)
{
    enum { LARGE = 50, ROUNDS = 100, SMALL = 100 };
    dp_record_id large = next_id, small = next_id + LARGE;
    next_id += LARGE + ROUNDS * SMALL;
    uint64_t lost = dp_stats_read(DP_STAT_PAIRS_LOST);
    int64_t before = 0, kept = 0;
    struct dp_pair pair;
    for (unsigned i = 0; i < DP_PAIRS_MOST; i++)
        before += dp_pairs_read(i, &pair) ? pair.n : 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < LARGE; i++)
            dp_pairs_note(large + i, large, 1, 1000000);
        for (unsigned i = 0; i < SMALL; i++)
            dp_pairs_note(small + round * SMALL + i, small, 1, 1000);
    }
    for (unsigned i = 0; i < LARGE; i++) {
        assert_true(find(large + i, large, &pair));
        assert_int_equal(pair.n, ROUNDS);
        assert_int_equal(pair.ns, ROUNDS * 1000000);
    }
    for (unsigned i = 0; i < DP_PAIRS_MOST; i++)
        kept += dp_pairs_read(i, &pair) ? pair.n : 0;
    lost = dp_stats_read(DP_STAT_PAIRS_LOST) - lost;
    assert_true(lost > 0);
    assert_int_equal(kept - before + (int64_t)lost, ROUNDS * (LARGE + SMALL));
}

static void a_baseline_leaves_what_is_new(void **state)
{
    struct dp_pairs_baseline base = {0};
    struct dp_pair_rows rows = {0};
    dp_record_id waiter = next_id++, holder = next_id++;
    dp_pairs_note(waiter, holder, 1, INT64_C(5000000000));
    assert_int_equal(dp_pairs_scan(&base, &rows), 0);
    assert_true(rows.n > 1);
    assert_true(rows.at[0].waiter == waiter && rows.at[0].holder == holder && rows.at[0].ns == INT64_C(5000000000));
    for (size_t i = 1; i < rows.n; i++)
        assert_true(rows.at[i].ns <= rows.at[i - 1].ns);
    size_t all = rows.n;
    dp_vec_clear(&rows);
    assert_int_equal(dp_pairs_scan(&base, &rows), 0); /* not committed: the same rows again */
    assert_int_equal(rows.n, all);
    dp_pairs_commit(&base, &rows);
    dp_vec_clear(&rows);
    dp_pairs_note(waiter, holder, 3, 7);
    assert_int_equal(dp_pairs_scan(&base, &rows), 0);
    assert_int_equal(rows.n, 1);
    assert_true(rows.at[0].n == 3 && rows.at[0].ns == 7);
    dp_vec_clear(&rows);
    assert_int_equal(dp_pairs_scan(NULL, &rows), 0); /* without a baseline: since start */
    assert_int_equal(rows.n, all);
    dp_vec_fini(&rows);
    dp_vec_fini(&base);
}

/* A pair that replaces another one in the table has a baseline of 0. */
static void a_new_pair_in_an_old_place_is_whole(void **state)
{
    struct dp_pairs_baseline base = {0};
    struct dp_pair_rows rows = {0};
    assert_int_equal(dp_pairs_scan(&base, &rows), 0);
    dp_pairs_commit(&base, &rows);
    dp_vec_clear(&rows);
    dp_record_id first = next_id;
    for (unsigned i = 0; i < 4 * DP_PAIRS_MOST; i++)
        dp_pairs_note(next_id++, first, 1, INT64_C(1) << 40);
    assert_int_equal(dp_pairs_scan(&base, &rows), 0);
    assert_int_equal(rows.n, DP_PAIRS_MOST);
    for (size_t i = 0; i < rows.n; i++)
        assert_true(rows.at[i].n == 1 && rows.at[i].ns == INT64_C(1) << 40);
    dp_vec_fini(&rows);
    dp_vec_fini(&base);
}

static void a_forked_child_has_none(void **state)
{
    int status;
    pid_t pid = fork();
    if (!pid) {
        struct dp_pair_rows rows = {0};
        dp_pairs_fork_child();
        _exit(dp_pairs_scan(NULL, &rows) || rows.n);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_is_the_sum_of_its_notes), cmocka_unit_test(the_largest_of_thousands_stay),
        cmocka_unit_test(a_baseline_leaves_what_is_new),  cmocka_unit_test(a_new_pair_in_an_old_place_is_whole),
        cmocka_unit_test(a_forked_child_has_none),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
