/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "host/cpu/probe.c"

static void releases_are_compared_as_numbers(void **state)
{
    static const char *const before[] = {"", "5", "5.8", "5.8.18", "5.1", "4.99", "4.19.0-9-amd64", "0.9", "x.y"};
    static const char *const from[] = {"5.9", "5.9.0", "5.9-rc1", "5.10.0-28-amd64", "5.15", "6.0", "6.1.90", "10.0"};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        assert_false(is_from(before[i], 5, 9));
    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        assert_true(is_from(from[i], 5, 9));
}

static void a_kernel_of_today_is_not_tried(void **state)
{
    struct utsname name;
    assert_int_equal(uname(&name), 0);
    if (!is_from(name.release, 5, 16))
        skip();
    assert_true(is_known_harmless());
}

static void timers_that_do_not_fire_are_of_no_use(void **state)
{
    int64_t begin_ns = dp_cpu_own_clock_ns();
    assert_false(survives_signals());
    assert_true(dp_cpu_own_clock_ns() - begin_ns >= 1000000); /* it has given them time */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(releases_are_compared_as_numbers),
        cmocka_unit_test(a_kernel_of_today_is_not_tried),
        cmocka_unit_test(timers_that_do_not_fire_are_of_no_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
