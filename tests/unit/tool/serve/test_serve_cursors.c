/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <stdio.h>
#include <string.h>

#include "tool/serve/cursors.h"

#define MINUTE_NS INT64_C(60000000000)

static struct dp_serve_cursors all;

static struct dp_serve_cursor *get(const char *name, pid_t pid)
{
    bool is_new;
    return dp_serve_cursors_get(&all, name, 0, pid, false, &is_new);
}

/* All are taken: the nameless one, those of names that are numbers, and one of a process. */
static int fill(void **state)
{
    (void)state;
    assert_non_null(get("", 0));
    for (int i = 2; i < DP_SERVE_CURSORS_MOST; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        assert_non_null(get(name, 0));
    }
    assert_non_null(get("", 7));
    assert_int_equal(all.at.n, DP_SERVE_CURSORS_MOST);
    return 0;
}

static int clear(void **state)
{
    (void)state;
    dp_serve_cursors_fini(&all);
    memset(&all, 0, sizeof all);
    return 0;
}

TEST_WITH(fill, clear, test_cursors_in_use_stay)
{
    assert_null(get("further", 0));
    assert_int_equal(all.at.n, DP_SERVE_CURSORS_MOST);
    assert_non_null(get("2", 0));
}

TEST_WITH(fill, clear, test_the_longest_idle_cursor_is_replaced)
{
    dp_serve_cursors_find(&all, "5", 0, 0)->used_ns -= 11 * MINUTE_NS;
    dp_serve_cursors_find(&all, "", 0, 7)->used_ns -= 12 * MINUTE_NS;
    assert_non_null(get("further", 0));
    assert_null(dp_serve_cursors_find(&all, "", 0, 7));
    assert_non_null(get("one more", 0));
    assert_null(dp_serve_cursors_find(&all, "5", 0, 0));
    assert_null(get("too many", 0));
    assert_int_equal(all.at.n, DP_SERVE_CURSORS_MOST);
}

TEST_WITH(fill, clear, test_the_shared_cursor_stays)
{
    dp_serve_cursors_find(&all, "", 0, 0)->used_ns -= 20 * MINUTE_NS;
    assert_null(get("further", 0));
}

TEST_WITH(fill, clear, test_a_page_goes_first)
{
    dp_serve_cursors_remove(&all, dp_serve_cursors_find(&all, "9", 0, 0));
    assert_non_null(get(DP_SERVE_CURSOR_PAGE "1", 0));
    dp_serve_cursors_find(&all, "5", 0, 0)->used_ns -= 11 * MINUTE_NS;
    assert_non_null(get("further", 0));
    assert_null(dp_serve_cursors_find(&all, DP_SERVE_CURSOR_PAGE "1", 0, 0));
    assert_non_null(dp_serve_cursors_find(&all, "5", 0, 0));
}

UNIT(NULL, NULL)
