/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include "support/unit.h"

#include "endpoint/request.h"
#include "profile/kinds.h"

#include <deltaprof/deltaprof.h>
#include <deltaprof/hooks.h>

static struct dp_http_request parse(const char *method, const char *target)
{
    struct dp_http_request r;
    dp_http_request_parse(&r, method, target);
    return r;
}

TEST(every_profile_is_found_behind_any_prefix)
{
    const struct dp_kind_endpoint *p;
    unsigned kind;
    for (size_t i = 0; (p = dp_kind_endpoint_at(i, &kind)); i++) {
        char target[128];
        for (int prefixed = 0; prefixed < 2; prefixed++) {
            snprintf(target, sizeof target, "%s/debug/pprof/%s?gc=1", prefixed ? "/admin/x" : "", p->name);
            struct dp_http_request r = parse("GET", target);
            assert_int_equal(r.page, DP_HTTP_PAGE_PROFILE);
            assert_int_equal(r.status, 200);
            assert_ptr_equal(r.profile, p);
            assert_int_equal(r.kind, kind);
        }
    }
    assert_int_equal(parse("GET", "/debug/pprof/").page, DP_HTTP_PAGE_INDEX);
    assert_int_equal(parse("GET", "/x/debug/pprof/?a=b").page, DP_HTTP_PAGE_INDEX);
    assert_int_equal(parse("GET", "/debug/pprof").status, 301);
    assert_int_equal(parse("GET", "/debug/pprof/view").page, DP_HTTP_PAGE_VIEW);
    assert_int_equal(parse("POST", "/debug/pprof/view").status, 405);
}

TEST(gperftools_paths_are_aliases)
{
    assert_string_equal(parse("GET", "/pprof/heap").profile->name, "heap");
    assert_string_equal(parse("GET", "/pprof/contention").profile->name, "mutex");
    assert_int_equal(parse("POST", "/pprof/symbol").page, DP_HTTP_PAGE_SYMBOL);
    assert_int_equal(parse("GET", "/pprof/cmdline").page, DP_HTTP_PAGE_CMDLINE);
    assert_int_equal(parse("GET", "/pprof/delta_heap").status, 404);
    assert_int_equal(parse("GET", "/pprof/").status, 404);
}

TEST(what_is_not_there_or_not_allowed_says_so)
{
    static const char *const unknown[] = {"/",
                                          "",
                                          "/debug/pprof/goroutine",
                                          "/debug/pprof/heap/",
                                          "/debug/pprof/heapx",
                                          "/debug/pprof/hea",
                                          "/debug/pprof/%68eap",
                                          "/debug",
                                          "?/debug/pprof/heap"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        struct dp_http_request r = parse("GET", unknown[i]);
        assert_int_equal(r.page, DP_HTTP_PAGE_ERROR);
        assert_int_equal(r.status, 404);
    }
    assert_int_equal(parse("POST", "/debug/pprof/heap").status, 405);
    assert_int_equal(parse("DELETE", "/debug/pprof/").status, 405);
    assert_int_equal(parse("PUT", "/debug/pprof/symbol").status, 405);
    assert_int_equal(parse("get", "/debug/pprof/heap").status, 405);
    assert_true(parse("HEAD", "/debug/pprof/heap").head);
}

TEST(seconds_is_judged_for_cumulative_profiles_and_ignored_for_deltas)
{
    assert_int_equal(parse("GET", "/debug/pprof/heap?seconds=5").seconds, 5);
    assert_int_equal(parse("GET", "/debug/pprof/mutex?x=1&seconds=3600&y").seconds, 3600);
    static const char *const bad[] = {"3601", "-1", "1.5", "", "x", "99999999999999999999999", "1%00", "%", "1%2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char target[128];
        snprintf(target, sizeof target, "/debug/pprof/heap?seconds=%s", bad[i]);
        assert_int_equal(parse("GET", target).status, 400);
        snprintf(target, sizeof target, "/debug/pprof/delta_heap?seconds=%s", bad[i]);
        assert_int_equal(parse("GET", target).status, 200);
    }
    assert_int_equal(parse("GET", "/debug/pprof/heap?debug=1&seconds=1").status, 400);
    assert_int_equal(parse("GET", "/debug/pprof/heap?types=idle").status, 400);
    assert_int_equal(parse("GET", "/debug/pprof/delta_heap?types=idle&seconds=1").status, 400);
    assert_int_equal(parse("GET", "/debug/pprof/heap?types=idle&seconds=1").status, 200);
    assert_true(parse("GET", "/debug/pprof/heap?debug=1").text);
    assert_false(parse("GET", "/debug/pprof/heap?debug=0&seconds=1").text);
    assert_int_equal(parse("GET", "/debug/pprof/delta_heap?debug=1").status, 400);
}

TEST(a_cursor_has_a_plain_name)
{
    struct dp_http_request r =
        parse("GET", "/debug/pprof/delta_heap?cursor=alloy-1.a_B&from=now&after=18446744073709551615");
    assert_int_equal(r.status, 200);
    assert_string_equal(r.cursor, "alloy-1.a_B");
    assert_true(r.from_now);
    assert_true(r.acknowledges);
    assert_true(r.after == UINT64_MAX);
    assert_string_equal(parse("GET", "/debug/pprof/delta_heap").cursor, "");
    assert_string_equal(parse("GET", "/debug/pprof/delta_heap?cursor=%61b").cursor, "ab");
    assert_int_equal(parse("GET", "/debug/pprof/delta_heap?cursor=").status, 400);
    assert_int_equal(parse("GET", "/debug/pprof/delta_heap?cursor=a/b").status, 400);
    assert_int_equal(parse("GET", "/debug/pprof/delta_heap?from=then").status, 400);
    assert_int_equal(parse("GET", "/debug/pprof/delta_heap?after=18446744073709551616").status, 400);
    char target[160] = "/debug/pprof/delta_heap?cursor=";
    size_t n = strlen(target);
    memset(target + n, 'a', 64);
    target[n + 64] = 0;
    assert_int_equal(parse("GET", target).status, 200);
    target[n + 64] = 'a';
    target[n + 65] = 0;
    assert_int_equal(parse("GET", target).status, 400);
}

TEST(settings_of_a_reply_are_parsed)
{
    struct dp_http_request r = parse("GET", "/debug/pprof/heap?types=inuse&symbolize=none&max_samples=100");
    assert_true(r.has_types && r.types == DP_TYPES_INUSE);
    assert_true(r.has_symbolize && r.symbolize == DP_SYMBOLIZE_NONE);
    assert_true(r.has_max_samples && r.max_samples == 100);
    assert_false(r.has_age);
    r = parse("GET", "/debug/pprof/heap?age=1&types=all&symbolize=lines");
    assert_true(r.has_age && r.age && r.has_types && r.types == DP_TYPES_ALL);
    assert_true(r.has_symbolize && r.symbolize == DP_SYMBOLIZE_LINES);
    assert_false(r.has_max_samples);
    r = parse("GET", "/debug/pprof/delta_heap?age=0&types=alloc&symbolize=functions");
    assert_true(r.has_age && !r.age && r.types == DP_TYPES_ALLOC && r.symbolize == DP_SYMBOLIZE_FUNCTIONS);
    static const char *const bad[] = {"types=some", "symbolize=yes",          "max_samples=-1",
                                      "age=2",      "max_samples=1000000001", "types="};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char target[64];
        snprintf(target, sizeof target, "/debug/pprof/heap?%s", bad[i]);
        assert_int_equal(parse("GET", target).status, 400);
    }
    assert_int_equal(parse("GET", "/debug/pprof/heap?max_samples=1000000000").status, 200);
}

TEST(locks_are_named_one_by_one)
{
    assert_int_equal(parse("GET", "/debug/pprof/block").locks, 0);
    assert_int_equal(parse("GET", "/debug/pprof/block?lock=mutex").locks, 1u << DELTAPROF_LOCK_MUTEX);
    assert_int_equal(parse("GET", "/debug/pprof/delta_mutex?lock=rwlock-read%2Ccond,join").locks,
                     1u << DELTAPROF_LOCK_READ | 1u << DELTAPROF_LOCK_COND | 1u << DELTAPROF_LOCK_JOIN);
    assert_int_equal(parse("GET", "/debug/pprof/block?lock=sem&lock=spin").locks,
                     1u << DELTAPROF_LOCK_SEM | 1u << DELTAPROF_LOCK_SPIN);
    static const char *const bad[] = {"", ",", "mutex,", ",mutex", "mute", "mutexx", "[overflow]", "all", "%00"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char target[128];
        snprintf(target, sizeof target, "/debug/pprof/block?lock=%s", bad[i]);
        assert_int_equal(parse("GET", target).status, 400);
        snprintf(target, sizeof target, "/debug/pprof/delta_heap?lock=%s",
                 bad[i]); /* deltas take the same filter as totals */
        assert_int_equal(parse("GET", target).status, 200);
    }
}

TEST(a_cpu_profile_has_a_window_of_30_seconds_unless_it_is_given)
{
    struct dp_http_request r = parse("GET", "/debug/pprof/profile");
    assert_int_equal(r.status, 200);
    assert_int_equal(r.kind, DP_KIND_CPU);
    assert_int_equal(r.seconds, 30);
    assert_false(r.profile->is_delta);
    assert_int_equal(parse("GET", "/debug/pprof/profile?seconds=5").seconds, 5);
    assert_int_equal(parse("GET", "/debug/pprof/profile?seconds=0").seconds, 30);
    assert_int_equal(parse("GET", "/pprof/profile?seconds=7").seconds, 7);
    assert_int_equal(parse("GET", "/debug/pprof/cpu").seconds, 0);
    assert_int_equal(parse("GET", "/debug/pprof/cpu?seconds=2").seconds, 2);
    assert_true(parse("GET", "/debug/pprof/delta_cpu").profile->is_delta);
}

TEST(a_value_of_127_bytes_is_read_and_a_longer_one_is_refused)
{
    char target[256];
    for (int n_zeros = 125; n_zeros <= 128; n_zeros++) {
        snprintf(target, sizeof target, "/debug/pprof/heap?seconds=%0*d", n_zeros + 1, 5);
        struct dp_http_request r = parse("GET", target);
        assert_int_equal(r.status, n_zeros < 127 ? 200 : 400);
        assert_int_equal(r.seconds, n_zeros < 127 ? 5 : 0);
    }
}

TEST(sixty_four_parameters_are_read_and_65_refused)
{
    char target[1024] = "/debug/pprof/heap?";
    for (int i = 0; i < 63; i++)
        strcat(target, "a=b&");
    strcat(target, "debug=1");
    assert_true(parse("GET", target).text);
    strcat(target, "&a");
    assert_int_equal(parse("GET", target).status, 400);
}

TEST(too_many_parameters_are_refused)
{
    char target[4096] = "/debug/pprof/heap?";
    for (int i = 0; i < 40; i++)
        strcat(target, "types=inuse&");
    assert_int_equal(parse("GET", target).status, 200);
    for (int i = 0; i < 40; i++)
        strcat(target, "a=b&");
    assert_int_equal(parse("GET", target).status, 400);
}

UNIT(NULL, NULL)
