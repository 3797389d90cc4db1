/* SPDX-License-Identifier: MIT */
#include "pprof/gzip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct sink {
    uint8_t bytes[1 << 20];
    size_t n;
    int fail_after;
};

static int take(void *ctx, const void *bytes, size_t n_bytes)
{
    struct sink *sink = ctx;
    if (sink->fail_after && --sink->fail_after == 0)
        return -28;
    assert_true(sink->n + n_bytes <= sizeof sink->bytes);
    memcpy(sink->bytes + sink->n, bytes, n_bytes);
    sink->n += n_bytes;
    return 0;
}

extern const struct dp_gzip_ops dp_module_gzip; /* linked in here, so what a stream uses is the module */

static struct sink sink;
static uint8_t text[300000], back[400000];

static void fill_text(void)
{
    uint32_t x = 1;
    for (size_t i = 0; i < sizeof text; i++) {
        x = x * 1664525 + 1013904223;
        text[i] = i % 3 ? (uint8_t) "profile"[i % 7] : (uint8_t)(x >> 28);
    }
}

static size_t inflate_all(size_t step)
{
    void *state = aligned_alloc(64, (dp_module_gzip.inflate_bytes + 63) & ~(size_t)63);
    dp_module_gzip.inflate_init(state);
    struct dp_gzip_io io = {.in = sink.bytes, .out = back};
    const char *why = "";
    int done = 0;
    while (!done && (size_t)(io.in - sink.bytes) < sink.n + 1) {
        size_t left = sink.n - (size_t)(io.in - sink.bytes);
        io.n_in = step < left ? step : left;
        io.n_out = sizeof back - (size_t)(io.out - back);
        done = dp_module_gzip.inflate(state, &io, &why);
    }
    free(state);
    assert_int_equal(done, 1);
    assert_ptr_equal(io.in, sink.bytes + sink.n);
    return (size_t)(io.out - back);
}

static void what_goes_in_comes_back(void **state)
{
    static const size_t sizes[] = {0, 1, 5, 65530, 65531, 65536, 131072, sizeof text};
    struct dp_gzip *gz = dp_gzip_new(take, &sink);
    assert_non_null(gz);
    fill_text();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sink.n = 0;
        dp_gzip_reset(gz, take, &sink);
        for (size_t at = 0; at < sizes[i];) {
            size_t n = 1 + at % 70000 < sizes[i] - at ? 1 + at % 70000 : sizes[i] - at;
            assert_int_equal(dp_gzip_write(gz, text + at, n), 0);
            at += n;
        }
        assert_int_equal(dp_gzip_finish(gz), 0);
        for (size_t step = 1; step < 100000; step *= 9) {
            assert_int_equal(inflate_all(step), sizes[i]);
            assert_memory_equal(back, text, sizes[i]);
        }
    }
    dp_gzip_free(gz);
}

/* Writes text[0, n_bytes) in a first piece of n_first and a rest. Returns the size of the stream. */
static size_t size_of(struct dp_gzip *gz, size_t n_first, size_t n_bytes)
{
    sink.n = 0;
    dp_gzip_reset(gz, take, &sink);
    assert_int_equal(dp_gzip_write(gz, text, n_first), 0);
    assert_int_equal(dp_gzip_write(gz, text + n_first, n_bytes - n_first), 0);
    assert_int_equal(dp_gzip_finish(gz), 0);
    assert_int_equal(inflate_all(1000), n_bytes);
    assert_memory_equal(back, text, n_bytes);
    return sink.n;
}

/* RFC 1951, 3.2.3: bits 1 and 2 of a block are its type; 1: fixed codes. */
static unsigned type_of_first_block(void)
{
    return sink.bytes[10] >> 1 & 3;
}

static void only_a_tiny_stream_has_fixed_codes(void **state)
{
    struct dp_gzip *gz = dp_gzip_new(take, &sink);
    fill_text();
    for (size_t n = 1; n < 3000; n += 31)
        for (size_t n_first = 0; n_first <= n; n_first += 1 + n / 3) {
            size_of(gz, n_first, n);
            if (n < DP_GZIP_TINY_BYTES)
                assert_int_equal(type_of_first_block(), 1);
        }
    size_t whole = size_of(gz, 0, 15000);
    assert_int_equal(type_of_first_block(), 2);
    assert_in_range(size_of(gz, 1, 15000), 0, whole + whole / 20);
    assert_int_equal(type_of_first_block(), 2);
    assert_in_range(size_of(gz, DP_GZIP_TINY_BYTES - 1, 15000), 0, whole + whole / 20);
    dp_gzip_free(gz);
}

static void small_streams_have_the_codes_of_an_earlier_one(void **state)
{
    struct dp_gzip *gz = dp_gzip_new(take, &sink);
    uint8_t codes[40];
    fill_text();
    size_of(gz, 8000, 8000);
    for (unsigned i = 1; i < 300; i++) {
        size_t n = 8000 + i % 7 * 1000;
        memset(text + i % 3000, (int)i, i % 100);
        struct dp_gzip *without = dp_gzip_new(take, &sink);
        size_t n_least = size_of(without, n, n);
        dp_gzip_free(without);
        assert_in_range(size_of(gz, n, n), 0, n_least + n_least / 20);
        if (i > 1 && i < 50)
            assert_memory_equal(codes, sink.bytes + 10, sizeof codes);
        memcpy(codes, sink.bytes + 10, sizeof codes);
    }
    for (size_t i = 0; i < sizeof text; i++) /* the codes are of a text without most of these bytes */
        text[i] = (uint8_t)(i * i >> 7);
    for (size_t n = 8000; n < 100000; n += 6000)
        size_of(gz, n, n);
    dp_gzip_free(gz);
}

static void a_last_piece_ends_the_stream(void **state)
{
    static const size_t sizes[] = {0, 1, 500, 1023, 1024, 5000, 24576, 70000, sizeof text};
    struct dp_gzip *gz = dp_gzip_new(take, &sink);
    fill_text();
    for (size_t i = 0; i < 81; i++) {
        size_t n_first = sizes[i / 9], n_last = sizes[i % 9];
        if (n_first + n_last > sizeof text)
            continue;
        sink.n = 0;
        dp_gzip_reset(gz, take, &sink);
        assert_int_equal(dp_gzip_write(gz, text, n_first), 0);
        assert_int_equal(dp_gzip_write_last(gz, text + n_first, n_last), 0);
        assert_int_equal(dp_gzip_finish(gz), 0);
        assert_int_equal(inflate_all(1000), n_first + n_last);
        assert_memory_equal(back, text, n_first + n_last);
    }
    dp_gzip_free(gz);
}

static void an_error_of_the_sink_sticks_until_reset(void **state)
{
    struct dp_gzip *gz = dp_gzip_new(take, &sink);
    sink = (struct sink){.fail_after = 1};
    fill_text();
    dp_gzip_write(gz, text, sizeof text);
    assert_int_equal(dp_gzip_finish(gz), -28);
    assert_int_equal(dp_gzip_finish(gz), -28);
    sink = (struct sink){0};
    dp_gzip_reset(gz, take, &sink);
    assert_int_equal(dp_gzip_write(gz, text, 10), 0);
    assert_int_equal(dp_gzip_finish(gz), 0);
    assert_int_equal(inflate_all(7), 10);
    dp_gzip_free(gz);
}

#if defined(__x86_64__)
#include <cpuid.h>

/* Whether the processor tells which registers are in use: XGETBV with 1. */
static int tells_use(void)
{
    unsigned a = 0, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_OSXSAVE && c & bit_AVX &&
           __get_cpuid_count(13, 1, &a, &b, &c, &d) && a & 4;
}

/* Whether upper halves of vector registers are in use, which makes each SSE instruction slow. */
static int uppers_in_use(void)
{
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
    return low & 4;
}

static void upper_halves_of_registers_are_not_left_in_use(void **state)
{
    if (!tells_use())
        skip();
    struct dp_gzip *gz = dp_gzip_new(take, &sink);
    sink = (struct sink){0};
    fill_text();
    __asm__ volatile("vzeroupper");
    assert_false(uppers_in_use());
    assert_int_equal(dp_gzip_write(gz, text, sizeof text), 0);
    int written = uppers_in_use();
    assert_int_equal(dp_gzip_finish(gz), 0);
    int finished = uppers_in_use();
    assert_false(written | finished);
    dp_gzip_free(gz);
}
#else
static void upper_halves_of_registers_are_not_left_in_use(void **state)
{
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_in_comes_back),
        cmocka_unit_test(only_a_tiny_stream_has_fixed_codes),
        cmocka_unit_test(small_streams_have_the_codes_of_an_earlier_one),
        cmocka_unit_test(a_last_piece_ends_the_stream),
        cmocka_unit_test(an_error_of_the_sink_sticks_until_reset),
        cmocka_unit_test(upper_halves_of_registers_are_not_left_in_use),
    };
    return cmocka_run_group_tests_name("gzip", tests, NULL, NULL);
}
