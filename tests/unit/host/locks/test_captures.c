/* SPDX-License-Identifier: MIT */
/* The limit on the time that captures of stacks take, against a clock that the tests move. */
#include "support/unit.h"

#include "host/locks/captures.h"

enum { MS = 1000000, SECONDS = 20 };

/* Wants a capture each 100 us for a while. Returns how many were allowed. */
static int64_t captures_of(int64_t took_ns, struct dp_captures *captures)
{
    int64_t n = 0, begin_ns = (int64_t)1000 * MS, end_ns = begin_ns + (int64_t)SECONDS * 1000 * MS;
    for (int64_t now_ns = begin_ns; now_ns < end_ns; now_ns += MS / 10)
        if (dp_captures_allow(captures, now_ns)) {
            dp_captures_pay(captures, now_ns, now_ns + took_ns);
            n++;
        }
    return n;
}

TEST(cheap_captures_are_limited_by_their_number)
{
    struct dp_captures captures = {0};
    int64_t n = captures_of(1000, &captures);
    assert_in_range(n, SECONDS * 1000, SECONDS * 1000 + DP_CAPTURES_BURST);
}

TEST(dear_captures_are_limited_by_their_time)
{
    for (int64_t took_ns = 5000; took_ns <= DP_CAPTURE_MOST_NS; took_ns *= 2) {
        struct dp_captures captures = {0};
        int64_t all_ns = captures_of(took_ns, &captures) * took_ns;
        int64_t share_ns = (int64_t)(SECONDS + 1) * 1000 * MS / DP_CAPTURE_PRICE;
        assert_in_range(all_ns, share_ns / 2, share_ns + took_ns);
    }
}

TEST(an_interrupted_capture_is_paid_as_a_long_one)
{
    struct dp_captures captures = {0}, longest = {0};
    int64_t n = captures_of((int64_t)5000 * MS, &captures);
    assert_int_equal(n, captures_of(DP_CAPTURE_MOST_NS, &longest));
}

TEST(an_overdraft_is_bounded_and_ends)
{
    struct dp_captures captures = {0};
    int64_t now_ns = (int64_t)1000 * MS, most_ns = DP_CAPTURES_BURST * DP_CAPTURE_NS;
    assert_int_equal(dp_captures_over_ns(&captures, now_ns), DP_CAPTURE_NS);
    for (int i = 0; i < 10 * DP_CAPTURES_BURST; i++) {
        dp_captures_pay(&captures, now_ns, now_ns + DP_CAPTURE_MOST_NS);
        assert_true(dp_captures_over_ns(&captures, now_ns) <= most_ns);
    }
    assert_int_equal(dp_captures_over_ns(&captures, now_ns), most_ns);
    assert_false(dp_captures_allow(&captures, now_ns));
    assert_true(dp_captures_allow(&captures, now_ns + most_ns + DP_CAPTURE_PRICE * DP_CAPTURE_MOST_NS));
}

TEST(an_overdraft_grows_with_each_capture)
{
    struct dp_captures captures = {0};
    int64_t now_ns = (int64_t)1000 * MS;
    while (dp_captures_allow(&captures, now_ns))
        ;
    int64_t before_ns = dp_captures_over_ns(&captures, now_ns);
    dp_captures_overdraw(&captures);
    dp_captures_overdraw(&captures);
    assert_int_equal(dp_captures_over_ns(&captures, now_ns), before_ns + 2 * DP_CAPTURE_NS);
}

UNIT(NULL, NULL)
