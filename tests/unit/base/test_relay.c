/* SPDX-License-Identifier: MIT */
/* Lines that one thread passes to another: each arrives once and in order, and a closed relay takes none. */
#include "support/unit.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/relay.h"

enum { LINES = 40 };

static char got[LINES + 2][64];
static unsigned n_got;

/* Slow enough that the next line must wait for its turn. */
static void take(void *ctx, const char *line)
{
    usleep(2000);
    if (n_got < LINES + 2)
        snprintf(got[n_got++], sizeof got[0], "%s", line);
}

static void *passes(void *unused)
{
    char text[64];
    dp_relay_use();
    for (int i = 0; i < LINES; i++) {
        snprintf(text, sizeof text, "line %d", i);
        dp_relay_line(text, strlen(text));
    }
    dp_relay_close();
    return unused;
}

static int listen_to_lines(void **state)
{
    dp_log_to(take, NULL);
    return 0;
}

TEST(each_line_arrives_once_and_in_order_behind_a_slow_callback)
{
    static const _Atomic int64_t never = INT64_MAX;
    pthread_t thread;
    char text[64];
    n_got = 0;
    assert_false(dp_relay_is_open());
    dp_relay_open();
    assert_true(dp_relay_is_open());
    assert_int_equal(pthread_create(&thread, NULL, passes, NULL), 0);
    assert_true(dp_relay_run(&never));
    pthread_join(thread, NULL);
    assert_false(dp_relay_is_open());
    assert_false(dp_relay_is_used()); /* by this thread */
    assert_int_equal(n_got, LINES);
    for (int i = 0; i < LINES; i++) {
        snprintf(text, sizeof text, "line %d", i);
        assert_non_null(strstr(got[i], text));
    }
}

TEST(a_closed_relay_drops_lines_and_ends_each_run)
{
    static const _Atomic int64_t never = INT64_MAX;
    n_got = 0;
    dp_relay_line("dropped", 7);
    dp_relay_wake();
    assert_true(dp_relay_run(&never));
    dp_relay_close();
    assert_int_equal(n_got, 0);
}

TEST(a_run_ends_at_its_deadline_after_the_lines_before_it)
{
    static const _Atomic int64_t past = 1;
    n_got = 0;
    dp_relay_open();
    dp_relay_line("one", 3);
    assert_false(dp_relay_run(&past));
    assert_int_equal(n_got, 1);
    dp_relay_wake(); /* an empty line is none for the log */
    assert_false(dp_relay_run(&past));
    assert_int_equal(n_got, 1);
    dp_relay_fork_child();
    assert_false(dp_relay_is_open());
}

UNIT(listen_to_lines, NULL)
