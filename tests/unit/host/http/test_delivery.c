/* SPDX-License-Identifier: MIT */
/* Which delta a cursor gets next, however the last one ended. */
#include "support/unit.h"
#include <sys/wait.h>

#include "endpoint_client.h"
#include "host/http/body.h"
#include "host/http/cursor.h"
#include "host/report/settings.h"

TEST(head_moves_nothing_and_has_no_body)
{
    ask("/debug/pprof/delta_heap?cursor=h");
    uint64_t seq = got.seq;
    ask_with("HEAD", "/debug/pprof/delta_heap?cursor=h", NULL);
    assert_int_equal(got.status, 200);
    assert_int_equal(got.n, 0);
    assert_int_equal(got.seq, seq);
    ask("/debug/pprof/delta_heap?cursor=h");
    assert_int_equal(got.seq, seq + 1);
    ask_with("HEAD", "/debug/pprof/goroutine", NULL); /* nor have errors and the index */
    assert_true(got.status == 404 && got.n == 0);
    ask_with("HEAD", "/debug/pprof/", NULL);
    assert_true(got.status == 200 && got.n == 0);
}

TEST(one_reply_a_cursor_and_others_go_on)
{
    struct deltaprof_http_reply *first = begin("GET", "/debug/pprof/delta_heap?cursor=busy", NULL);
    ask("/debug/pprof/delta_heap?cursor=busy");
    assert_int_equal(got.status, 503);
    assert_string_equal(got.go, "1");
    ask("/debug/pprof/delta_heap?cursor=other");
    assert_int_equal(got.status, 200);
    ask("/debug/pprof/delta_mutex?cursor=busy");
    assert_int_equal(got.status, 200);
    head_of(first);
    assert_true(pull(first, SIZE_MAX));
    deltaprof_http_end(first, 1);
    ask("/debug/pprof/delta_heap?cursor=busy");
    assert_int_equal(got.status, 200);
}

/* The size of an empty delta tells a delta that has the new row from one that has not; times differ by a byte or two.
 */
static bool is_empty(size_t empty)
{
    return got.n <= empty + 8;
}

static size_t empty_size(const char *target)
{
    ask(target);
    ask(target);
    return got.n;
}

TEST(what_was_not_delivered_comes_again)
{
    const char *target = "/debug/pprof/delta_heap?cursor=lost&types=alloc";
    size_t empty = empty_size(target);
    allocate(3);
    for (int i = 0; i < 20; i++) {
        struct deltaprof_http_reply *reply = begin("GET", target, NULL);
        head_of(reply);
        bool end = pull(reply, i % 3 ? (size_t)i : SIZE_MAX);
        assert_true(end == !(i % 3));
        deltaprof_http_end(reply, 0);
        for (int spins = 0; dp_http_body_count() && spins < 60000; spins++)
            usleep(1000); /* an orphan ends its cursor's write on its own thread */
    }
    ask(target);
    assert_false(is_empty(empty));
    ask(target);
    assert_true(is_empty(empty));
}

TEST(after_acknowledges_one_reply_and_no_other)
{
    empty_size("/debug/pprof/delta_heap?cursor=ack&types=alloc");
    uint64_t have = got.seq;
    size_t empty = got.n;
    char target[128];
    allocate(1);
    for (int i = 0; i < 3; i++) { /* the reply is read whole, but the client never says so: it comes again */
        snprintf(target, sizeof target, "/debug/pprof/delta_heap?cursor=ack&types=alloc&after=%llu",
                 (unsigned long long)have);
        ask(target);
        assert_int_equal(got.status, 200);
        assert_false(is_empty(empty));
    }
    uint64_t last = got.seq;
    snprintf(target, sizeof target, "/debug/pprof/delta_heap?cursor=ack&types=alloc&after=%llu",
             (unsigned long long)last - 1);
    ask(target);
    assert_int_equal(got.status, 409);
    snprintf(target, sizeof target, "/debug/pprof/delta_heap?cursor=ack&types=alloc&after=%llu",
             (unsigned long long)last);
    ask(target);
    assert_int_equal(got.status, 200);
    assert_true(is_empty(empty));
}

TEST(from_now_begins_now)
{
    allocate(5);
    ask("/debug/pprof/delta_heap?cursor=start&types=alloc");
    size_t all = got.n;
    ask("/debug/pprof/delta_heap?cursor=now&from=now&types=alloc");
    assert_int_equal(got.status, 200);
    assert_true(got.n < all);
}

static uint64_t seq_of(const char *cursor)
{
    char target[64];
    snprintf(target, sizeof target, "/debug/pprof/delta_block?cursor=%s", cursor);
    ask(target);
    assert_int_equal(got.status, 200);
    return got.seq;
}

TEST(a_child_drops_its_parents_replies)
{
    struct deltaprof_http_reply *reply = begin("GET", "/debug/pprof/delta_heap?cursor=fork", NULL);
    pid_t pid = fork();
    if (!pid) {
        char c;
        dp_report_fork_child();
        dp_http_endpoint_fork_child();
        int ok = deltaprof_http_read(reply, &c, 1) == -ECANCELED;
        deltaprof_http_end(reply, 0);
        struct deltaprof_http_request request = {"GET", "/debug/pprof/delta_heap?cursor=fork", NULL, 0};
        ok &= !deltaprof_http_begin(&request, &reply) && deltaprof_http_status(reply) == 200;
        _exit(ok ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    head_of(reply);
    assert_true(pull(reply, SIZE_MAX));
    deltaprof_http_end(reply, 1);
}

/* The places of named cursors are bounded; the one used least recently makes room, the shared default one never does.
 */
TEST(many_names_cost_the_longest_idle_cursor_only)
{
    uint64_t seq = seq_of("kept"), n = 1;
    struct deltaprof_http_reply *held = begin("GET", "/debug/pprof/delta_block?cursor=held", NULL);
    for (int i = 0; i < 2 * DP_CURSORS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        usleep(1); /* each is used later than the one before */
        assert_int_equal(seq_of(name), 1);
        if (i % 8 == 0)
            assert_int_equal(seq_of("kept"), seq + n++);
    }
    assert_int_equal(seq_of("n0"), 1);
    assert_int_equal(seq_of("n191"), 2);
    ask("/debug/pprof/delta_block"); /* its first reply: its place was free all the time */
    assert_int_equal(got.status, 200);
    assert_int_equal(got.seq, 1);
    head_of(held);
    assert_true(pull(held, SIZE_MAX));
    deltaprof_http_end(held, 1);
    assert_int_equal(seq_of("held"), 2);
    ask("/debug/pprof/delta_block");
    assert_int_equal(got.seq, 2);
}

TEST(idle_cursors_end_with_their_time)
{
    assert_int_equal(seq_of("mine"), 1);
    assert_int_equal(seq_of("mine"), 2);
    ask("/debug/pprof/delta_block");
    uint64_t seq = got.seq;
    dp_http_cursor_init(0);
    usleep(1); /* an age of 0 ns is not above 0 */
    seq_of("other");
    assert_int_equal(seq_of("mine"), 1);
    ask("/debug/pprof/delta_block");
    assert_int_equal(got.seq, seq + 1);
    dp_http_cursor_init(INT64_MAX);
}

UNIT(starts, NULL)
