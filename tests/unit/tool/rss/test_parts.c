/* SPDX-License-Identifier: MIT */
/* Parts of a profile that are brought up to date with a process's mappings, and sums over processes. */
#include "tool/rss/rss.h"

#include "support/unit.h"
#include <string.h>

enum { STACKS = 10, FILES = 20, SELF = 30, OTHER = 40, THEN = 700 };

static int64_t part(const struct dp_rss *rss, const char *name)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < rss->parts.n; i++)
        if (!strcmp(rss->parts.at[i].name, name)) {
            assert_int_equal(bytes, 0); /* it stands there once */
            bytes = rss->parts.at[i].bytes;
        }
    return bytes;
}

/* The profile has 500 in use, 100 held and 40 of another part; then THEN bytes were resident. */
static const struct {
    int64_t grown, now, self; /* since the profile; resident bytes */
    int64_t in_use, held, other, absent, of_profiler;
} rows[] = {
    {0, THEN, SELF, 500, 100, 40, 5, SELF},       /* nothing has changed */
    {50, THEN + 30, SELF, 550, 80, 40, 5, SELF},  /* in new pages, and in held ones */
    {200, THEN + 30, SELF, 630, 0, 40, 75, SELF}, /* and 70 that were never touched */
    {50, THEN + 80, SELF, 550, 100, 40, 5, SELF}, /* 30 are of nothing that is known */
    {50, THEN + 50, SELF, 550, 100, 40, 5, SELF},
    {50, THEN - 20, SELF, 550, 30, 40, 5, SELF}, /* 20 of the held ones have gone */
    {-30, THEN, SELF, 470, 130, 40, 5, SELF},
    {-600, THEN, SELF, 0, 600, 40, 5, SELF}, /* more than there was */
    {0, THEN - 99, SELF, 500, 1, 40, 5, SELF},
    {0, THEN - 100, SELF, 500, 0, 40, 5, SELF},
    {0, THEN - 200, SELF, 407, 0, 32, 5, SELF}, /* more than was held: in proportion */
    {0, THEN, 0, 500, 100, 40, 5, 7},           /* the process does not tell the profiler's */
};

TEST(each_part_is_brought_up_to_date)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dp_vma vmas[] = {{.kind = DP_VMA_STACK, .anonymous_bytes = STACKS},
                                {.kind = DP_VMA_FILE, .anonymous_bytes = FILES},
                                {.kind = DP_VMA_BRK, .anonymous_bytes = 600}};
        struct dp_rss_process now = {.vmas = {vmas, 3, 3},
                                     .anonymous_bytes = rows[i].now,
                                     .resident_bytes = rows[i].now + 300,
                                     .shared_bytes = 100,
                                     .swap_bytes = 9,
                                     .self_bytes = rows[i].self};
        struct dp_rss then = {.anonymous_bytes = THEN,
                              .grown_bytes = rows[i].grown,
                              .absent_bytes = 5,
                              .error_bytes = 3,
                              .time_ns = 77},
                      rss;
        assert_true(dp_rss_add(&then, DP_RSS_IN_USE, 450) && dp_rss_add(&then, DP_RSS_IN_USE, 50) &&
                    dp_rss_add(&then, DP_RSS_HELD, 100) && dp_rss_add(&then, "other", OTHER) &&
                    dp_rss_add(&then, DP_RSS_STACKS, 1000) && dp_rss_add(&then, DP_RSS_FILES, 1000) &&
                    dp_rss_add(&then, DP_RSS_SELF, 7) && dp_rss_add(&then, "none", 0) && dp_rss_add(&then, "none", -1));
        assert_int_equal(then.parts.n, 6);
        assert_true(dp_rss_combine(&now, &then, &rss));
        print_message("row %zu\n", i);
        assert_int_equal(part(&rss, DP_RSS_IN_USE), rows[i].in_use);
        assert_int_equal(part(&rss, DP_RSS_HELD), rows[i].held);
        assert_int_equal(part(&rss, "other"), rows[i].other);
        assert_int_equal(part(&rss, DP_RSS_STACKS), STACKS);
        assert_int_equal(part(&rss, DP_RSS_FILES), FILES);
        assert_int_equal(part(&rss, DP_RSS_SELF), rows[i].of_profiler);
        assert_int_equal(dp_rss_explained(&rss),
                         rows[i].in_use + rows[i].held + rows[i].other + STACKS + FILES + rows[i].of_profiler);
        assert_int_equal(rss.absent_bytes, rows[i].absent);
        assert_int_equal(rss.anonymous_bytes, rows[i].now);
        assert_int_equal(rss.file_bytes, 200);
        assert_int_equal(rss.shared_bytes, 100);
        assert_int_equal(rss.swap_bytes, 9);
        assert_int_equal(rss.error_bytes, 3);
        assert_int_equal(rss.time_ns, 77);
        assert_true(rss.is_profiled);
        dp_rss_fini(&then);
        dp_rss_fini(&rss);
    }
}

/* Of pages that processes share, those of the one that has most; errors add up as squares. */
TEST(processes_are_summed)
{
    const struct dp_rss of[] = {
        {.anonymous_bytes = 100,
         .absent_bytes = 1,
         .error_bytes = 3,
         .file_bytes = 50,
         .shared_bytes = 7,
         .swap_bytes = -1},
        {.anonymous_bytes = 200,
         .absent_bytes = 2,
         .error_bytes = 4,
         .file_bytes = 40,
         .shared_bytes = 8,
         .swap_bytes = 5,
         .is_profiled = true,
         .time_ns = 70},
        {.anonymous_bytes = 400, .absent_bytes = 4, .swap_bytes = 6, .time_ns = 60},
        {.anonymous_bytes = 800, .absent_bytes = 8, .time_ns = 80},
    };
    struct dp_rss all = {.parts = {0}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct dp_rss one = of[i];
        assert_true(dp_rss_add(&one, "a", 1 << i) && dp_rss_add(&one, i % 2 ? "odd" : "even", 1 << i));
        assert_true(dp_rss_family_add(&all, &one));
        dp_rss_fini(&one);
    }
    assert_int_equal(part(&all, "a"), 15);
    assert_int_equal(part(&all, "odd"), 10);
    assert_int_equal(part(&all, "even"), 5);
    assert_int_equal(all.anonymous_bytes, 1500);
    assert_int_equal(all.absent_bytes, 15);
    assert_int_equal(all.error_bytes, 5);
    assert_int_equal(all.file_bytes, 50);
    assert_int_equal(all.shared_bytes, 8);
    assert_int_equal(all.swap_bytes, 11);
    assert_int_equal(all.time_ns, 60); /* the earliest */
    assert_true(all.is_profiled);
    dp_rss_fini(&all);
}

UNIT(NULL, NULL)
