/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "delta/scale.h"

static void probability_agrees_with_libm(void **state)
{
    for (double x = 1e-12; x < 800; x *= 1.0007) {
        double ours = dp_scale_probability(x), theirs = -expm1(-x);
        assert_true(fabs(ours - theirs) <= 4 * 2.3e-16 * theirs);
    }
    assert_true(dp_scale_probability(0) == 0);
    assert_true(dp_scale_probability(1e300) == 1);
}

static void values_are_those_of_go(void **state)
{
    static const struct {
        int64_t n, v, n_out, v_out;
    } cases[] = {
        {5, 5 * 327680, 10, 3525422},
        {3, 3 * 327680, 6, 2115253},
        {8, 8 * 327680, 17, 5640676},
        {0, 0, 0, 0},
        {0, 10, 0, 0},
        {7, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t n = cases[i].n, v = cases[i].v;
        dp_scale_heap(&n, &v, 524288);
        assert_int_equal(n, cases[i].n_out);
        assert_int_equal(v, cases[i].v_out);
    }
    int64_t n = 5, v = 50;
    dp_scale_heap(&n, &v, 1);
    assert_int_equal(n, 5);
    assert_int_equal(v, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probability_agrees_with_libm),
        cmocka_unit_test(values_are_those_of_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
