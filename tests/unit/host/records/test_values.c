/* SPDX-License-Identifier: MIT */
#include "support/unit.h"

#include "host/records/values.h"

#define PLENTY ((size_t)1 << 30)

static struct dp_records_values values;

static uint32_t keep(uintptr_t first, size_t n, size_t budget_bytes)
{
    uint32_t numbers[64];
    for (size_t i = 0; i < n; i++)
        numbers[i] = dp_records_values_number(&values, first + i);
    return dp_records_values_keep(&values, numbers, n, budget_bytes);
}

TEST(a_value_has_one_number)
{
    dp_records_values_begin(&values, 1);
    for (int again = 0; again < 2; again++)
        for (uintptr_t i = 0; i < 20000; i++)
            assert_int_equal(dp_records_values_number(&values, i << 4), i); /* 0 is a value like others */
    dp_records_values_fini(&values);
}

TEST(locations_last_for_one_profile)
{
    uint32_t numbers[] = {0, 1}, refs[2];
    dp_records_values_begin(&values, 1);
    assert_int_equal(dp_records_values_number(&values, 77), 0);
    assert_int_equal(dp_records_values_number(&values, 78), 1);
    assert_int_equal(dp_records_values_resolve(&values, 1, 9), 0);
    assert_false(dp_records_values_refs(&values, numbers, 2, refs));
    assert_int_equal(refs[0], 0);
    assert_int_equal(refs[1], 9);
    assert_int_equal(dp_records_values_resolve(&values, 0, 8), 0);
    assert_true(dp_records_values_refs(&values, numbers, 2, refs));
    assert_false(dp_records_values_end(&values, PLENTY));
    assert_false(dp_records_values_refs(&values, numbers + 1, 1, refs));
    dp_records_values_fini(&values);
}

TEST(stacks_stay_while_they_are_used)
{
    dp_records_values_begin(&values, 1);
    uint32_t a = keep(100, 8, 72), b = keep(200, 8, 72);
    assert_true(a && b);
    assert_int_equal(keep(300, 8, 72), 0); /* full, and both were used */
    assert_false(dp_records_values_end(&values, PLENTY));
    size_t n = 0;
    const uint32_t *kept = dp_records_values_use(&values, b, &n);
    assert_int_equal(n, 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(values.all.at[kept[i]].value, 200 + i);
    assert_int_equal(keep(300, 8, 72), 0); /* full, and half was used */
    assert_false(dp_records_values_end(&values, PLENTY));
    assert_false(dp_records_values_end(&values, PLENTY)); /* nothing was, but nothing was wanting */
    assert_int_equal(keep(300, 8, 72), 0);
    assert_true(dp_records_values_end(&values, PLENTY));
    assert_true(keep(300, 8, 72) != 0);
    dp_records_values_fini(&values);
}

TEST(values_beyond_their_budget_are_dropped)
{
    dp_records_values_begin(&values, 1);
    for (uintptr_t i = 0; i < 1000; i++)
        dp_records_values_number(&values, i);
    assert_false(dp_records_values_end(&values, 1 << 20));
    assert_true(dp_records_values_end(&values, 1 << 14));
    assert_int_equal(values.all.n, 0);
}

UNIT(NULL, NULL)
