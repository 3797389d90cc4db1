/* SPDX-License-Identifier: MIT */
/* The same room without the module: nothing here is linked with it, and none lies beside this program. */
#include "pprof/gzip.h"
#include "pprof/decode_input.h"

#include <stdlib.h>
#include <string.h>
#include "support/unit.h"

struct sink {
    uint8_t bytes[1 << 20];
    size_t n;
};

static struct sink sink;
static uint8_t text[300000];

static int take(void *ctx, const void *bytes, size_t n_bytes)
{
    assert_true(sink.n + n_bytes <= sizeof sink.bytes);
    memcpy(sink.bytes + sink.n, bytes, n_bytes);
    sink.n += n_bytes;
    return 0;
}

static uint32_t crc32_of(const uint8_t *at, size_t n)
{
    uint32_t crc = ~0u;
    while (n--) {
        crc ^= *at++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

static uint32_t little(const uint8_t *at, int n_bytes)
{
    uint32_t value = 0;
    while (n_bytes--)
        value = value << 8 | at[n_bytes];
    return value;
}

/* By RFC 1952 and 1951, stored blocks only. */
static void assert_holds(const uint8_t *bytes, size_t n_bytes)
{
    static const uint8_t magic[] = {0x1f, 0x8b, 8, 0};
    const uint8_t *at = sink.bytes + 10;
    size_t n = 0;
    int last;
    assert_memory_equal(sink.bytes, magic, sizeof magic);
    do {
        last = at[0];
        uint32_t block = little(at + 1, 2);
        assert_true(last <= 1);
        assert_int_equal(block ^ 0xffff, little(at + 3, 2));
        assert_true(n + block <= n_bytes);
        assert_memory_equal(at + 5, bytes + n, block);
        at += 5 + block;
        n += block;
    } while (!last);
    assert_int_equal(n, n_bytes);
    assert_int_equal(little(at, 4), crc32_of(bytes, n_bytes));
    assert_int_equal(little(at + 4, 4), n_bytes);
    assert_ptr_equal(at + 8, sink.bytes + sink.n);
}

TEST(without_the_module_output_is_stored_and_valid)
{
    const char *why = NULL;
    if (!dp_gzip_load(&why))
        skip(); /* deltaprof is installed on this machine */
    assert_string_equal(why, "the module is not installed");
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)(i * i >> 7);
    struct dp_gzip *gz = dp_gzip_new(take, NULL);
    static const size_t sizes[] = {0, 1, 65530, 65531, 65532, 131062, sizeof text};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sink.n = 0;
        dp_gzip_reset(gz, take, NULL);
        for (size_t at = 0, n; at < sizes[i]; at += n) {
            n = sizes[i] - at < 40000 ? sizes[i] - at : 40000;
            assert_int_equal(dp_gzip_write(gz, text + at, n), 0);
        }
        assert_int_equal(dp_gzip_finish(gz), 0);
        assert_holds(text, sizes[i]);
    }
    dp_gzip_free(gz);
}

TEST(without_the_module_a_reader_says_why_it_cannot)
{
    struct dp_decode_input input = {0};
    struct dp_decode_error error;
    if (!dp_gzip_load(NULL))
        skip();
    assert_true(dp_decode_input_copy(&input, "\x1f\x8b\x08", 3, DP_DECODE_LIMIT, &error) < 0);
    assert_string_equal(error.line, "cannot read gzip: the module is not installed");
    assert_int_equal(dp_decode_input_copy(&input, "2\0", 2, DP_DECODE_LIMIT, &error), 0); /* raw needs none */
    dp_decode_input_fini(&input);
}

UNIT(NULL, NULL)
