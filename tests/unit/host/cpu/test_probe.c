/* SPDX-License-Identifier: MIT */
#include "support/unit.h"

#include "host/cpu/probe.c"

TEST(releases_are_compared_as_numbers)
{
    static const char *const before[] = {"", "5", "5.8", "5.8.18", "5.1", "4.99", "4.19.0-9-amd64", "0.9", "x.y"};
    static const char *const from[] = {"5.9", "5.9.0", "5.9-rc1", "5.10.0-28-amd64", "5.15", "6.0", "6.1.90", "10.0"};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        assert_false(is_from(before[i], 5, 9));
    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        assert_true(is_from(from[i], 5, 9));
}

TEST(a_kernel_of_today_is_not_tried)
{
    struct utsname name;
    assert_int_equal(uname(&name), 0);
    if (!is_from(name.release, 5, 16))
        skip();
    assert_true(is_known_harmless());
}

TEST(timers_that_do_not_fire_are_of_no_use)
{
    int64_t begin_ns = dp_cpu_own_clock_ns();
    assert_false(survives_signals());
    assert_true(dp_cpu_own_clock_ns() - begin_ns >= 1000000); /* it has given them time */
}

UNIT(NULL, NULL)
