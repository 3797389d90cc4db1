/* SPDX-License-Identifier: MIT */
/* What the endpoint answers, and what it costs to be asked. */
#include "support/unit.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "endpoint_client.h"
#include "host/http/body.h"

/* In-use objects and bytes, allocated objects and bytes, of a cumulative text profile's header. */
static void totals(long long t[4])
{
    ask("/debug/pprof/heap?debug=1");
    assert_int_equal(got.status, 200);
    got.body[got.n] = 0;
    assert_int_equal(sscanf(got.body, "heap profile: %lld: %lld [%lld: %lld] @ heap_v2/1", &t[0], &t[1], &t[2], &t[3]),
                     4);
}

static bool is_gzip(void)
{
    return got.n > 20 && (unsigned char)got.body[0] == 0x1f && (unsigned char)got.body[1] == 0x8b;
}

TEST(every_profile_is_gzip_even_when_it_is_empty)
{
    static const char *const names[] = {"delta_heap", "delta_mutex", "delta_block", "heap", "allocs", "mutex", "block"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char target[64];
        snprintf(target, sizeof target, "/x/debug/pprof/%s", names[i]);
        ask(target);
        assert_int_equal(got.status, 200);
        assert_string_equal(got.type, "application/octet-stream");
        assert_true(is_gzip());
    }
}

TEST(seconds_is_a_window_that_never_blocks)
{
    struct deltaprof_http_reply *reply = begin("GET", "/debug/pprof/heap?seconds=1&types=alloc", NULL);
    head_of(reply);
    assert_true(pull(reply, SIZE_MAX));
    assert_true(is_gzip());
    deltaprof_http_end(reply, 1);
    reply = begin("GET", "/debug/pprof/heap?seconds=3600", NULL);
    assert_true(deltaprof_http_wait_ns(reply) > 500000000);
    char c;
    assert_int_equal(deltaprof_http_read(reply, &c, 1), -EAGAIN);
    deltaprof_http_end(reply, 0); /* given up: nothing waits for it */
}

TEST(text_profiles_say_what_happened)
{
    long long before[4], after[4];
    totals(before);
    allocate(7);
    totals(after);
    assert_int_equal(after[0] - before[0], 7);
    assert_int_equal(after[1] - before[1], 700);
    assert_int_equal(after[2] - before[2], 7);
    assert_int_equal(after[3] - before[3], 700);
    assert_non_null(strstr(got.body, "MAPPED_LIBRARIES:\n"));
    for (size_t i = n_blocks - 7; i < n_blocks; i++)
        deltaprof_free(0, blocks[i]);
    totals(after);
    assert_int_equal(after[0] - before[0], 0);
    assert_int_equal(after[2] - before[2], 7);
    ask("/debug/pprof/block?debug=1");
    assert_int_equal(strncmp(got.body, "--- contention:\ncycles/second=1000000000\nsampling period=1\n", 58), 0);
}

TEST(errors_are_text_that_pprof_shows)
{
    static const struct {
        const char *method, *target;
        int status;
    } wrong[] = {
        {"GET", "/debug/pprof/goroutine", 404},
        {"POST", "/debug/pprof/heap", 405},
        {"GET", "/debug/pprof/heap?seconds=x", 400},
        {"GET", "/debug/pprof/heap?seconds=1&debug=1", 400},
        {"GET", "/debug/pprof/delta_heap?cursor=%2f", 400},
        {"GET", "/debug/pprof/heap?types=x", 400},
        {"GET", "/debug/pprof/delta_heap?cursor=never&after=77", 409},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ask_with(wrong[i].method, wrong[i].target, NULL);
        assert_int_equal(got.status, wrong[i].status);
        assert_string_equal(got.go, "1");
        assert_int_equal(strncmp(got.type, "text/plain", 10), 0);
        assert_true(got.n > 5 && got.body[got.n - 1] == '\n');
    }
    struct deltaprof_http_request none = {0};
    struct deltaprof_http_reply *reply;
    assert_int_equal(deltaprof_http_begin(&none, &reply), -EINVAL);
    assert_null(reply);
    deltaprof_http_end(NULL, 1);
}

TEST(symbol_answers_what_pprof_asks)
{
    ask_with("POST", "/debug/pprof/symbol", "0x1+0xffffffffffffffff+0xzz+garbage+0x");
    assert_int_equal(got.status, 200);
    got.body[got.n] = 0;
    assert_string_equal(got.body, "num_symbols: 1\n");
    ask("/debug/pprof/symbol");
    assert_int_equal(got.n, 15);
    char *long_body = malloc((1 << 20) + 2);
    memset(long_body, '+', (1 << 20) + 1);
    long_body[(1 << 20) + 1] = 0;
    ask_with("POST", "/debug/pprof/symbol", long_body);
    assert_int_equal(got.status, 413);
    free(long_body);
}

TEST(windows_that_end_together_wait_for_their_turn)
{
    struct deltaprof_http_reply *replies[40];
    for (size_t i = 0; i < 40; i++)
        replies[i] = begin("GET", "/debug/pprof/heap?seconds=1", NULL);
    for (size_t n_open = 40, n_ready = 0; n_open; n_ready = 0) {
        for (size_t i = 0; i < 40; i++) /* nobody reads before all that can have begun */
            n_ready += replies[i] && !deltaprof_http_wait_ns(replies[i]);
        assert_true(n_ready <= 16);
        for (size_t i = 0; i < 40; i++) {
            if (!replies[i] || deltaprof_http_wait_ns(replies[i]))
                continue;
            head_of(replies[i]);
            assert_true(pull(replies[i], SIZE_MAX));
            deltaprof_http_end(replies[i], 1);
            replies[i] = NULL;
            n_open--;
        }
    }
}

static char logged[512];

static void log_line(void *ctx, const char *line)
{
    snprintf(logged, sizeof logged, "%s", line);
}

TEST(a_reply_that_fails_is_cut_off_and_the_log_says_why)
{
    long long before[4], after[4];
    dp_log_to(log_line, NULL);
    ask("/debug/pprof/delta_heap?cursor=cut");
    allocate(1);
    totals(before);
    struct deltaprof_http_reply *reply = begin("GET", "/debug/pprof/heap?seconds=1", NULL);
    dp_mem_cap(1);  /* what is mapped stays, and nothing comes */
    head_of(reply); /* its host sends 200 before it asks whether there is anything */
    assert_false(pull(reply, SIZE_MAX));
    deltaprof_http_end(reply, 0);
    dp_mem_cap(64 << 20);
    assert_int_equal(got.error, -ENOMEM);
    assert_non_null(strstr(logged, "cannot make a profile for the endpoint: ENOMEM; the reply failed"));
    ask("/debug/pprof/delta_heap?cursor=cut");
    assert_int_equal(got.status, 200);
    assert_non_null(strstr(logged, "profiles are served again"));
    totals(after);
    assert_memory_equal(before, after, sizeof before);
    dp_log_to(NULL, NULL);
}

static void await_status(struct deltaprof_http_reply *reply)
{
    for (int64_t wait_ns; (wait_ns = deltaprof_http_wait_ns(reply)) > 0;)
        usleep((useconds_t)(wait_ns / 1000 + 1));
}

TEST(the_status_waits_for_the_profile)
{
    const char *target = "/debug/pprof/delta_heap?cursor=waits";
    ask(target);
    uint64_t seq = got.seq;
    struct deltaprof_http_reply *reply = begin("GET", "/debug/pprof/heap?seconds=1", NULL);
    dp_mem_cap(1); /* what is mapped stays, and nothing comes */
    await_status(reply);
    head_of(reply);
    assert_int_equal(got.status, 503);
    assert_string_equal(got.go, "1");
    assert_true(pull(reply, SIZE_MAX));
    got.body[got.n] = 0;
    assert_non_null(strstr(got.body, "memory"));
    deltaprof_http_end(reply, 1);
    dp_mem_cap(64 << 20);
    ask(target);
    assert_int_equal(got.status, 200);
    assert_int_equal(got.seq, seq + 1);
}

TEST(clients_leave_the_memory_that_ticks_need)
{
    ask("/debug/pprof/delta_heap"); /* what stays for good is there */
    size_t used = dp_mem_used();
    dp_mem_cap(used + (4 << 20));
    dp_mem_keep_back((4 << 20) - 2 * dp_page_bytes()); /* a reply, but not its body */
    for (int i = 0; i < 2; i++) {
        struct deltaprof_http_reply *reply = begin("GET", "/debug/pprof/delta_heap?cursor=greedy", NULL);
        await_status(reply);
        head_of(reply);
        assert_int_equal(got.status, i ? 200 : 503);
        deltaprof_http_end(reply, pull(reply, SIZE_MAX));
        if (!i) { /* a tick finds what was left */
            void *p = dp_mem_map(3 << 20);
            assert_non_null(p);
            dp_mem_unmap(p, 3 << 20);
        }
        dp_mem_keep_back(0);
    }
    dp_mem_cap(64 << 20);
}

TEST(nothing_is_kept_when_all_is_over)
{
    for (int i = 0; i < 300; i++)
        ask("/debug/pprof/heap");
    size_t used = dp_mem_used();
    for (int i = 0; i < 300; i++) {
        struct deltaprof_http_reply *reply = begin("GET", "/debug/pprof/heap", NULL);
        deltaprof_http_end(reply, 0);
    }
    for (int spins = 0; (dp_http_body_count() || dp_mem_used() != used) && spins < 60000; spins++)
        usleep(1000); /* an orphan's own last step is later than its body's end */
    assert_int_equal(dp_mem_used(), used);
}

/* The last test: there is no way back. */
TEST(a_process_under_seccomp_makes_no_profile)
{
    assert_true(dp_process_note_seccomp());
    ask("/debug/pprof/heap");
    assert_int_equal(got.status, 503);
    assert_non_null(strstr(got.body, "seccomp"));
    ask_with("HEAD", "/debug/pprof/heap", NULL);
    assert_int_equal(got.status, 200);
    ask("/debug/pprof/");
    assert_int_equal(got.status, 200);
}

UNIT(starts, NULL)
