/* SPDX-License-Identifier: MIT */
/* The line that sums a lock profile up: its sums, its order, and milliseconds at their edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "host/api/recording.h"
#include "host/locks/title.h"
#include "host/table/record.h"

#include <deltaprof/hooks.h>

static unsigned lock_of(const struct dp_record *record, bool *shown)
{
    *shown = true;
    return record->labels;
}

static const struct dp_delta_rules rules = {.kind = DP_KIND_BLOCK, .lock_of = lock_of};
static struct dp_rows rows;

static int start(void **state)
{
    struct dp_config conf;
    dp_config_init(&conf);
    return dp_record_init(&conf);
}

static int end(void **state)
{
    dp_vec_fini(&rows);
    return 0;
}

static void add(unsigned lock, int64_t n, int64_t ns)
{
    dp_frame_id frame = DP_FRAME_HAND_OVER;
    struct dp_stack stack = {.hash = dp_stack_hash(&frame, 1), .depth = 1, .frames = &frame};
    struct dp_row *row = dp_vec_push(&rows);
    assert_non_null(row);
    assert_true(dp_record_add(DP_KIND_BLOCK, 0, lock, &stack, 0, 0, &row->id));
    row->values[0] = n;
    row->values[1] = ns;
}

static void assert_title(unsigned locks, const char *expected)
{
    char text[256];
    dp_title_sum(&rules, "waits", locks, &rows, text, sizeof text);
    assert_string_equal(text, expected);
    dp_vec_clear(&rows);
}

static void milliseconds_are_cut_off_and_not_rounded(void **state)
{
    assert_title(0, "0 waits, 0.000 s");
    add(DELTAPROF_LOCK_MUTEX, 1, 999999);
    assert_title(0, "1 waits, 0.000 s: mutex 0.000 s in 1");
    add(DELTAPROF_LOCK_MUTEX, 1, 999999999);
    assert_title(0, "1 waits, 0.999 s: mutex 0.999 s in 1");
    add(DELTAPROF_LOCK_MUTEX, 2, 3001000000);
    assert_title(0, "2 waits, 3.001 s: mutex 3.001 s in 2");
}

static void kinds_stand_by_their_time_the_longest_first(void **state)
{
    add(DELTAPROF_LOCK_MUTEX, 10, 1213000000);
    add(DELTAPROF_LOCK_COND, 1, 1000000000);
    add(DELTAPROF_LOCK_COND, 1, 2000000000);
    assert_title(0, "12 waits, 4.213 s: cond 3.000 s in 2, mutex 1.213 s in 10");
    add(DELTAPROF_LOCK_MUTEX, 1, 1000000);
    add(DELTAPROF_LOCK_COND, 1, 1000000);
    assert_title(1u << DELTAPROF_LOCK_MUTEX | 1u << DELTAPROF_LOCK_COND,
                 "only lock=mutex,cond: 2 waits, 0.002 s: mutex 0.001 s in 1, cond 0.001 s in 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(milliseconds_are_cut_off_and_not_rounded),
        cmocka_unit_test(kinds_stand_by_their_time_the_longest_first),
    };
    return cmocka_run_group_tests(tests, start, end);
}
