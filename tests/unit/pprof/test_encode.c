/* SPDX-License-Identifier: MIT */
#include "pprof/encode.h"
#include "pprof/strings.h"
#include "pprof/wire.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "support/unit.h"

struct sink {
    uint8_t bytes[1 << 20];
    size_t n;
    int fail;
};

static int take(void *ctx, const void *bytes, size_t n_bytes)
{
    struct sink *sink = ctx;
    if (sink->fail)
        return -28;
    assert_true(sink->n + n_bytes <= sizeof sink->bytes);
    memcpy(sink->bytes + sink->n, bytes, n_bytes);
    sink->n += n_bytes;
    return 0;
}

static struct sink sink;

static struct dp_encode *start(void)
{
    static const struct dp_encode_value_type types[] = {{"contentions", "count"}, {"delay", "nanoseconds"}};
    sink.n = 0;
    sink.fail = 0;
    struct dp_encode *e = dp_encode_new(take, &sink);
    assert_non_null(e);
    dp_encode_header(e, &(struct dp_encode_header){.types = types, .n_types = 2, .time_ns = 5, .period = 1});
    return e;
}

/* The i-th top-level field of that number: its bytes. */
static const uint8_t *find(unsigned field, unsigned i, size_t *n)
{
    const uint8_t *at = sink.bytes, *end = sink.bytes + sink.n;
    while (at < end) {
        uint64_t tag = 0, value = 0;
        at = dp_wire_get(at, end, &tag);
        assert_non_null(at);
        at = dp_wire_get(at, end, &value);
        assert_non_null(at);
        if (tag >> 3 == field && !i--) {
            *n = (size_t)value;
            return at;
        }
        if ((tag & 7) == DP_WIRE_BYTES)
            at += value;
    }
    return NULL;
}

static void assert_field(unsigned field, unsigned i, const void *bytes, size_t n_bytes)
{
    size_t n = 0;
    const uint8_t *at = find(field, i, &n);
    assert_non_null(at);
    assert_int_equal(n, n_bytes);
    assert_memory_equal(at, bytes, n_bytes);
}

TEST(ids_are_dense_and_strings_are_written_once)
{
    struct dp_encode *e = start();
    int64_t a = dp_encode_string(e, "alloc", 5), b = dp_encode_string(e, "free", 4);
    assert_int_equal(dp_encode_string(e, "alloc", 5), a);
    assert_int_equal(dp_encode_string(e, NULL, 0), 0);
    assert_int_equal(dp_encode_function(e, a, a, 0, 7), 1);
    assert_int_equal(dp_encode_function(e, b, b, 0, 7), 2);
    assert_int_equal(dp_encode_function(e, a, a, 0, 7), 1);
    struct dp_encode_line line = {.function = 2, .line = 300};
    assert_int_equal(dp_encode_location(e, 1, 0x400000, &line, 1), 1);
    assert_int_equal(dp_encode_location(e, 1, 0x400010, NULL, 0), 2);
    assert_int_equal(dp_encode_mapping(e, &(struct dp_encode_mapping){.start = 1, .limit = 2}), 1);
    assert_int_equal(dp_encode_finish(e), 0);
    dp_encode_free(e);
    assert_field(6, 0, "", 0);
    assert_field(6, 5, "alloc", 5);
    assert_field(4, 0, "\x08\x01\x10\x01\x18\x80\x80\x80\x02\x22\x05\x08\x02\x10\xac\x02", 16);
    size_t n;
    assert_null(find(5, 2, &n));
}

TEST(a_sample_has_every_value_of_the_header)
{
    struct dp_encode *e = start();
    uint64_t ids[] = {1, 127, 128, 16383, 16384, 2097151, 2097152, (1u << 28) - 1, 1u << 28, UINT64_MAX};
    int64_t values[] = {0, -1};
    struct dp_encode_label label = {.key = 1, .num = 16, .num_unit = 2};
    dp_encode_sample(e, ids, 10, values, &label, 1);
    assert_int_equal(dp_encode_finish(e), 0);
    dp_encode_free(e);
    size_t n;
    const uint8_t *at = find(2, 0, &n), *end;
    assert_memory_equal(at, "\x0a", 1);
    end = at + 2 + at[1];
    at += 2;
    for (size_t i = 0; i < 10; i++) {
        uint64_t id;
        at = dp_wire_get(at, end, &id);
        assert_non_null(at);
        assert_int_equal(id, ids[i]);
    }
    assert_ptr_equal(at, end);
    assert_memory_equal(at, "\x12\x0b\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x1a\x06\x08\x01\x18\x10\x20\x02", 21);
}

TEST(refs_are_written_as_the_ids_that_they_stand_for)
{
    static const uint64_t ids[] = {1, 127, 128, 16383, 16384, (1u << 21) - 1, 1u << 21, (1u << 24) - 1, 5};
    int64_t values[] = {1, 1 << 30};
    uint32_t refs[9];
    static struct sink by_ids;
    struct dp_encode *e = start();
    dp_encode_sample(e, ids, 9, values, NULL, 0);
    assert_int_equal(dp_encode_finish(e), 0);
    dp_encode_free(e);
    by_ids = sink;
    e = start();
    for (int i = 0; i < 9; i++)
        refs[i] = dp_encode_ref(ids[i]);
    dp_encode_sample_refs(e, refs, 9, values, NULL, 0);
    assert_int_equal(dp_encode_finish(e), 0);
    dp_encode_free(e);
    assert_int_equal(sink.n, by_ids.n);
    assert_memory_equal(sink.bytes, by_ids.bytes, sink.n);
    assert_int_equal(dp_encode_ref(1u << 24), 0);
}

TEST(bytes_that_are_not_utf8_are_replaced)
{
    struct dp_encode *e = start();
    dp_encode_string(e, "a\xff\xc3\xa9\xed\xa0\x80z", 8);
    dp_encode_string(e, "long enough for a word \xf0\x9f\x98\x80\xf0\x9f", 29);
    assert_int_equal(dp_encode_finish(e), 0);
    dp_encode_free(e);
    assert_field(6, 5, "a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz", 16);
    assert_field(6, 6, "long enough for a word \xf0\x9f\x98\x80\xef\xbf\xbd\xef\xbf\xbd", 33);
}

TEST(extra_fields_go_with_the_next_message_only)
{
    struct dp_encode *e = start();
    dp_encode_extra(e, (struct dp_encode_extra){"\xa0\x06\x01", 3});
    dp_encode_location(e, 1, 1, NULL, 0);
    dp_encode_location(e, 1, 2, NULL, 0);
    assert_int_equal(dp_encode_finish(e), 0);
    dp_encode_free(e);
    assert_field(4, 0, "\x08\x01\x10\x01\x18\x01\xa0\x06\x01", 9);
    assert_field(4, 1, "\x08\x02\x10\x01\x18\x02", 6);
}

TEST(the_first_error_is_kept)
{
    struct dp_encode *e = start();
    sink.fail = 1;
    for (int i = 0; i < 20000; i++)
        dp_encode_location(e, 1, (uint64_t)i << 20, NULL, 0);
    sink.fail = 0;
    assert_int_equal(dp_encode_finish(e), -28);
    assert_int_equal(sink.n, 0);
    dp_encode_free(e);
}

static uint64_t new_function(struct dp_encode *e, const char *name)
{
    return dp_encode_function_new(e, name, strlen(name), dp_strings_hash(name, strlen(name)));
}

TEST(new_functions_and_those_that_may_come_again_have_different_ids)
{
    struct dp_encode *e = start(); /* writes "" and five strings */
    assert_int_equal(new_function(e, "main"), 1);
    int64_t a = dp_encode_string(e, "a", 1), b = dp_encode_string(e, "b", 1), c = dp_encode_string(e, "c", 1);
    assert_int_equal(dp_encode_string(e, "a", 1), a);
    assert_true(b == a + 1 && c == b + 1);
    assert_int_equal(dp_encode_function(e, a, a, 0, 0), 2);
    assert_int_equal(new_function(e, "other"), 3);
    assert_int_equal(dp_encode_function(e, c, c, 0, 0), 4);
    assert_int_equal(dp_encode_function(e, a, a, 0, 0), 2);
    assert_int_equal(dp_encode_finish(e), 0);
    dp_encode_free(e);
    assert_field(6, 5, "main", 4);
    assert_field(6, 9, "other", 5);
    assert_field(5, 0, "\x08\x01\x10\x05\x18\x05", 6);
    assert_field(5, 1, "\x08\x02\x10\x06\x18\x06", 6);
    assert_field(5, 2, "\x08\x03\x10\x09\x18\x09", 6);
    assert_field(5, 3, "\x08\x04\x10\x08\x18\x08", 6);
}

static const char *kept_name(int i)
{
    static char names[4000][16];
    snprintf(names[i], sizeof names[i], "f%d", i);
    return names[i];
}

/* Names of functions come before and after the same text as a label, a file or the name of another function. */
TEST(a_name_that_is_another_string_too_is_written_once)
{
    for (int n_others = 0; n_others <= 4000; n_others += 2000) {
        struct dp_encode *e = start();
        int64_t before = dp_encode_string(e, "before", 6);
        assert_int_equal(new_function(e, "first"), 1);
        assert_int_equal(new_function(e, "join"), 2);
        assert_int_equal(new_function(e, "before"), 3);
        for (int i = 0; i < n_others; i++)
            assert_int_equal(new_function(e, kept_name(i)), 4 + i);
        int64_t join = dp_encode_string(e, "join", 4);
        assert_int_equal(join, before + 2);
        assert_int_equal(dp_encode_string(e, "join", 4), join);
        assert_int_equal(dp_encode_string(e, "before", 6), before);
        assert_int_equal(dp_encode_function(e, join, join, 0, 0), 2);
        assert_int_equal(dp_encode_function(e, before, before, 0, 0), 3);
        int64_t first = dp_encode_string(e, "first", 5);
        assert_int_equal(first, before + 1);
        assert_int_equal(dp_encode_function(e, first, first, 0, 0), 1);
        assert_int_equal(dp_encode_function(e, first, first, join, 7), 4 + n_others);
        assert_int_equal(new_function(e, "last"), 5 + n_others);
        if (n_others) {
            int64_t last = dp_encode_string(e, kept_name(1999), 5);
            assert_int_equal(last, before + 3 + 1999);
            assert_int_equal(dp_encode_function(e, last, last, 0, 0), 4 + 1999);
        }
        assert_int_equal(dp_encode_finish(e), 0);
        dp_encode_free(e);
    }
}

/* The locations of 300 functions, by the call for usual ones wherever it takes them. Returns how often it did. */
static size_t write_locations(bool usual)
{
    struct dp_encode *e = start();
    size_t n_taken = 0;
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t mapping = i % 50 ? 1 : i, address = i % 70 ? (uint64_t)i * i * i << i % 30 : 0;
        struct dp_encode_line line = {.function = i % 300 + (i % 90 ? 1 : 1 << 22)};
        uint32_t ref = usual ? dp_encode_location_usual(e, mapping, address, dp_encode_ref(line.function)) : 0;
        n_taken += ref != 0;
        assert_int_equal(dp_encode_ref_id(ref ? ref : dp_encode_ref(dp_encode_location(e, mapping, address, &line, 1))),
                         i + 1);
    }
    assert_int_equal(dp_encode_finish(e), 0);
    dp_encode_free(e);
    return n_taken;
}

TEST(usual_locations_are_written_as_all_others)
{
    static struct sink general;
    assert_int_equal(write_locations(false), 0);
    general = sink;
    assert_in_range(write_locations(true), 15000, 19999);
    assert_int_equal(sink.n, general.n);
    assert_memory_equal(sink.bytes, general.bytes, general.n);
}

TEST(an_address_is_written_as_any_number)
{
    for (unsigned bits = 0; bits <= 64; bits++)
        for (uint64_t below = 0; below < 3; below++) {
            uint8_t usual[DP_WIRE_VARINT_MAX], fast[DP_WIRE_VARINT_MAX + DP_WIRE_SLACK];
            uint64_t value = (bits < 64 ? (uint64_t)1 << bits : 0) - below;
            size_t n = (size_t)(dp_wire_put(usual, value) - usual);
            assert_int_equal(dp_wire_put_address(fast, value) - fast, n);
            assert_memory_equal(usual, fast, n);
        }
}

/* The number of top-level fields of each number, and how often a field of another number follows. */
static size_t count_fields(size_t counts[16])
{
    const uint8_t *at = sink.bytes, *end = sink.bytes + sink.n;
    uint64_t tag = 0, value = 0, last = 0;
    size_t n_changes = 0;
    memset(counts, 0, 16 * sizeof *counts);
    for (; at < end; last = tag) {
        at = dp_wire_get(at, end, &tag);
        assert_non_null(at);
        assert_in_range(tag >> 3, 1, 15);
        at = dp_wire_get(at, end, &value);
        assert_non_null(at);
        if ((tag & 7) == DP_WIRE_BYTES)
            at += value;
        counts[tag >> 3]++;
        n_changes += tag != last;
    }
    assert_ptr_equal(at, end);
    return n_changes;
}

TEST(messages_of_one_kind_lie_together_and_are_whole)
{
    enum { N = 4000, LONG_BYTES = 40000, LONG_STACK = 40000 };
    static uint64_t ids[LONG_STACK];
    static char text[LONG_BYTES];
    size_t counts[16];
    struct dp_encode *e = start();
    for (unsigned i = 0; i < LONG_STACK; i++)
        ids[i] = i + 1;
    for (unsigned i = 0; i < N; i++) {
        size_t n = i % 1000 ? 8 : LONG_BYTES, depth = i % 1001 ? 3 : LONG_STACK;
        memset(text, 'a' + i % 26, n);
        for (unsigned k = 0; k < 4; k++)
            text[k] = (char)('a' + (i >> 4 * k & 15));
        int64_t name = dp_encode_string(e, text, n), values[] = {1, i};
        struct dp_encode_line line = {.function = dp_encode_function(e, name, name, 0, 0)};
        dp_encode_location(e, 1, 0x400000 + i, &line, 1);
        dp_encode_sample(e, ids, depth, values, NULL, 0);
    }
    assert_int_equal(dp_encode_finish(e), 0);
    dp_encode_free(e);
    assert_in_range(count_fields(counts), 5, N / 20);
    assert_int_equal(counts[2], N);
    assert_int_equal(counts[4], N);
    assert_int_equal(counts[5], N);
    assert_int_equal(counts[6], N + 5);
    for (unsigned i = 0; i < N; i++) {
        uint64_t id = 0;
        size_t n = 0;
        const uint8_t *location = find(4, i, &n);
        assert_non_null(location);
        assert_non_null(dp_wire_get(location + 1, location + n, &id));
        assert_int_equal(id, i + 1);
    }
}

UNIT(NULL, NULL)
