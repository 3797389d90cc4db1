/* SPDX-License-Identifier: MIT */
/* Samples at the edges of their profile: the last location id and the one behind it. */
#include <string.h>
#include "support/unit.h"
#include <errno.h>

#include "pprof/decode.h"
#include "pprof/encode.h"
#include "support/bytes.h"

enum { N = 300, DEPTH = 40 };

static struct bytes written;
static struct dp_decode decode;
static struct dp_decode_error error;
static struct dp_decode_sample sample;

static void begin(struct dp_encode **e)
{
    static const struct dp_encode_value_type types[] = {{"alloc_space", "bytes"}};
    written.all.n = 0;
    *e = dp_encode_new(keep, &written);
    dp_encode_header(*e, &(struct dp_encode_header){.types = types, .n_types = 1, .time_ns = 1});
}

/* One sample of DEPTH ids, all of them `usual` but the one at that place; then N locations. */
static int scan_with(uint64_t usual, unsigned place, uint64_t id)
{
    struct dp_encode *e;
    uint64_t ids[DEPTH];
    for (unsigned i = 0; i < DEPTH; i++)
        ids[i] = i == place ? id : usual;
    begin(&e);
    int64_t name = dp_encode_string(e, "f", 1);
    struct dp_encode_line line = {.function = dp_encode_function(e, name, name, 0, 0)};
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(dp_encode_location(e, 0, 0x1000 + i, &line, 1), i + 1);
    dp_encode_sample(e, ids, DEPTH, (int64_t[]){7}, NULL, 0);
    assert_int_equal(dp_encode_finish(e), 0);
    dp_encode_free(e);
    int err = dp_decode_scan(&decode, written.all.at, written.all.n, &error);
    return err ? err : dp_decode_sample(&decode, 0, &sample, &error);
}

TEST(the_last_location_is_found_wherever_its_id_stands)
{
    for (unsigned place = 0; place < DEPTH; place++) {
        for (uint64_t usual = 1; usual < N; usual += 198) { /* ids of one byte and of two */
            assert_int_equal(scan_with(usual, place, N), 0);
            assert_int_equal(sample.locations.n, DEPTH);
            for (unsigned i = 0; i < DEPTH; i++)
                assert_int_equal(sample.locations.at[i], i == place ? N - 1 : usual - 1);
        }
    }
}

TEST(an_id_behind_the_last_location_is_refused_wherever_it_stands)
{
    static const uint64_t beyond[] = {N + 1, UINT32_MAX, UINT64_C(1) << 32, (UINT64_C(1) << 32) + 1, UINT64_MAX, 0};
    for (unsigned place = 0; place < DEPTH; place++) {
        for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
            for (uint64_t usual = 1; usual < N; usual += 198) {
                assert_int_equal(scan_with(usual, place, beyond[i]), -EBADMSG);
                assert_non_null(strstr(error.line, "location_id"));
            }
        }
    }
}

static int end(void **state)
{
    dp_decode_sample_fini(&sample);
    dp_decode_fini(&decode);
    dp_vec_fini(&written.all);
    return 0;
}

UNIT(NULL, end)
