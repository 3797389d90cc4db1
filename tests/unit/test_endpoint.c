/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/config.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/event.h"
#include "report/profile.h"
#include "sink/body.h"
#include "sink/endpoint.h"

#include <deltaprof/hooks.h>
#include <deltaprof/http.h>

/* ---- a client ---- */

struct answer {
    int status;
    uint64_t seq;
    char type[64], go[8];
    size_t n;
    char body[1 << 20];
    long error;
};

static struct answer got;

static struct deltaprof_http_reply *begin(const char *method, const char *target, const char *body)
{
    struct deltaprof_http_request request = {method, target, body, body ? strlen(body) : 0};
    struct deltaprof_http_reply *reply;
    assert_int_equal(deltaprof_http_begin(&request, &reply), 0);
    return reply;
}

static void head_of(struct deltaprof_http_reply *reply)
{
    const char *name, *value;
    memset(&got, 0, offsetof(struct answer, body));
    got.status = deltaprof_http_status(reply);
    for (size_t i = 0; !deltaprof_http_header(reply, i, &name, &value); i++) {
        if (!strcmp(name, "X-Deltaprof-Seq"))
            got.seq = strtoull(value, NULL, 10);
        if (!strcmp(name, "Content-Type"))
            snprintf(got.type, sizeof got.type, "%s", value);
        if (!strcmp(name, "X-Go-Pprof"))
            snprintf(got.go, sizeof got.go, "%s", value);
    }
}

/* Reads at most `most` bytes; true at the end of the body. */
static bool pull(struct deltaprof_http_reply *reply, size_t most)
{
    while (got.n < most) {
        size_t room = sizeof got.body - got.n < most - got.n ? sizeof got.body - got.n : most - got.n;
        ssize_t n = deltaprof_http_read(reply, got.body + got.n, room);
        if (n == -EAGAIN) {
            int64_t wait_ns = deltaprof_http_wait_ns(reply);
            usleep(wait_ns > 0 ? (useconds_t)(wait_ns / 1000) : 1);
            continue;
        }
        got.error = n;
        if (n <= 0)
            return n == 0;
        got.n += (size_t)n;
    }
    return false;
}

static void ask_with(const char *method, const char *target, const char *body)
{
    struct deltaprof_http_reply *reply = begin(method, target, body);
    head_of(reply);
    bool end = pull(reply, SIZE_MAX);
    deltaprof_http_end(reply, end);
}

static void ask(const char *target)
{
    ask_with("GET", target, NULL);
}

/* ---- events, and what a text profile says of them ---- */

static char blocks[4096][16];
static size_t n_blocks;

__attribute__((noinline)) static void allocate(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        deltaprof_alloc(0, blocks[n_blocks++], 100);
}

/* In-use objects and bytes, allocated objects and bytes, of a cumulative text profile's header. */
static void totals(long long t[4])
{
    ask("/debug/pprof/heap?debug=1");
    assert_int_equal(got.status, 200);
    got.body[got.n] = 0;
    assert_int_equal(sscanf(got.body, "heap profile: %lld: %lld [%lld: %lld] @ heap_v2/1", &t[0], &t[1], &t[2], &t[3]),
                     4);
}

static int starts(void **state)
{
    struct dp_config conf;
    struct dp_config_error error;
    dp_config_init(&conf);
    assert_int_equal(dp_config_parse(&conf, "heap_rate=1,symbolize=none", &error), 0);
    assert_int_equal(dp_record_init(&conf), 0);
    dp_record_tune(&conf, true);
    assert_int_equal(dp_report_init(&conf), 0);
    dp_endpoint_init(&conf);
    return 0;
}

static bool is_gzip(void)
{
    return got.n > 20 && (unsigned char)got.body[0] == 0x1f && (unsigned char)got.body[1] == 0x8b;
}

/* ---- tests ---- */

static void every_profile_is_gzip_even_when_it_is_empty(void **state)
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

static void head_moves_nothing_and_has_no_body(void **state)
{
    ask("/debug/pprof/delta_heap?cursor=h");
    uint64_t seq = got.seq;
    ask_with("HEAD", "/debug/pprof/delta_heap?cursor=h", NULL);
    assert_int_equal(got.status, 200);
    assert_int_equal(got.n, 0);
    assert_int_equal(got.seq, seq);
    ask("/debug/pprof/delta_heap?cursor=h");
    assert_int_equal(got.seq, seq + 1);
}

static void one_reply_a_cursor_and_others_go_on(void **state)
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

static void what_was_not_delivered_comes_again(void **state)
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
        for (int spins = 0; dp_body_count() && spins < 5000; spins++)
            usleep(1000); /* an orphan settles its cursor on its own thread */
    }
    ask(target);
    assert_false(is_empty(empty));
    ask(target);
    assert_true(is_empty(empty));
}

static void after_acknowledges_one_reply_and_no_other(void **state)
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

static void from_now_begins_now(void **state)
{
    allocate(5);
    ask("/debug/pprof/delta_heap?cursor=start&types=alloc");
    size_t all = got.n;
    ask("/debug/pprof/delta_heap?cursor=now&from=now&types=alloc");
    assert_int_equal(got.status, 200);
    assert_true(got.n < all);
}

static void seconds_is_a_window_that_never_blocks(void **state)
{
    struct deltaprof_http_reply *reply = begin("GET", "/debug/pprof/heap?seconds=1&types=alloc", NULL);
    assert_true(deltaprof_http_wait_ns(reply) > 500000000);
    char c;
    assert_int_equal(deltaprof_http_read(reply, &c, 1), -EAGAIN);
    head_of(reply);
    assert_true(pull(reply, SIZE_MAX));
    assert_true(is_gzip());
    deltaprof_http_end(reply, 1);
    reply = begin("GET", "/debug/pprof/heap?seconds=3600", NULL);
    deltaprof_http_end(reply, 0); /* given up: nothing waits for it */
}

static void text_profiles_say_what_happened(void **state)
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

static void errors_are_text_that_pprof_shows(void **state)
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

static void symbol_answers_what_pprof_asks(void **state)
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

static void cursors_are_bounded(void **state)
{
    int refused = 0;
    for (int i = 0; i < 200; i++) {
        char target[64];
        snprintf(target, sizeof target, "/debug/pprof/delta_block?cursor=n%d", i);
        ask(target);
        assert_true(got.status == 200 || got.status == 503);
        refused += got.status == 503;
    }
    assert_true(refused > 0);
    ask("/debug/pprof/delta_block?cursor=n0");
    assert_int_equal(got.status, 200);
}

static void a_child_drops_its_parents_replies(void **state)
{
    struct deltaprof_http_reply *reply = begin("GET", "/debug/pprof/delta_heap?cursor=fork", NULL);
    pid_t pid = fork();
    if (!pid) {
        char c;
        dp_report_fork_child();
        dp_endpoint_fork_child();
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

static void windows_that_end_together_wait_for_their_turn(void **state)
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

static void a_reply_that_fails_is_cut_off_and_the_log_says_why(void **state)
{
    long long before[4], after[4];
    dp_log_to(log_line, NULL);
    ask("/debug/pprof/delta_heap?cursor=cut");
    allocate(1);
    totals(before);
    struct deltaprof_http_reply *reply = begin("GET", "/debug/pprof/heap?seconds=1", NULL);
    dp_mem_cap(1); /* what is mapped stays, and nothing comes */
    head_of(reply);
    assert_false(pull(reply, SIZE_MAX));
    deltaprof_http_end(reply, 0);
    dp_mem_cap(64 << 20);
    assert_int_equal(got.error, -ENOMEM);
    assert_non_null(strstr(logged, "a profile for the endpoint: ENOMEM, its reply was cut"));
    ask("/debug/pprof/delta_heap?cursor=cut");
    assert_int_equal(got.status, 200);
    assert_non_null(strstr(logged, "profiles are served again"));
    totals(after);
    assert_memory_equal(before, after, sizeof before);
    dp_log_to(NULL, NULL);
}

static void nothing_is_kept_when_all_is_over(void **state)
{
    for (int i = 0; i < 300; i++)
        ask("/debug/pprof/heap");
    size_t used = dp_mem_used();
    for (int i = 0; i < 300; i++) {
        struct deltaprof_http_reply *reply = begin("GET", "/debug/pprof/heap", NULL);
        deltaprof_http_end(reply, 0);
    }
    for (int spins = 0; dp_body_count() && spins < 5000; spins++)
        usleep(1000);
    usleep(20000); /* the last orphan's own last step */
    assert_int_equal(dp_mem_used(), used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_profile_is_gzip_even_when_it_is_empty),
        cmocka_unit_test(head_moves_nothing_and_has_no_body),
        cmocka_unit_test(one_reply_a_cursor_and_others_go_on),
        cmocka_unit_test(what_was_not_delivered_comes_again),
        cmocka_unit_test(after_acknowledges_one_reply_and_no_other),
        cmocka_unit_test(from_now_begins_now),
        cmocka_unit_test(seconds_is_a_window_that_never_blocks),
        cmocka_unit_test(text_profiles_say_what_happened),
        cmocka_unit_test(errors_are_text_that_pprof_shows),
        cmocka_unit_test(symbol_answers_what_pprof_asks),
        cmocka_unit_test(a_child_drops_its_parents_replies),
        cmocka_unit_test(windows_that_end_together_wait_for_their_turn),
        cmocka_unit_test(a_reply_that_fails_is_cut_off_and_the_log_says_why),
        cmocka_unit_test(nothing_is_kept_when_all_is_over),
        cmocka_unit_test(cursors_are_bounded),
    };
    return cmocka_run_group_tests(tests, starts, NULL);
}
