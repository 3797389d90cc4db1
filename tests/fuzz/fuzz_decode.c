/* SPDX-License-Identifier: MIT */
/*
 * Fuzzes the reader with any bytes, gzipped or raw, then merges, encodes and reads again: an accepted input must be
 * written as a profile that is accepted, with the same sums.
 */
#include "tool/model/merge.h"
#include "pprof/decode_input.h"
#include "written.h"

#include <errno.h>

#define LIMIT ((size_t)1 << 22)

static uint64_t sum(const struct dp_model_merge *merge)
{
    uint64_t total = 0;
    for (size_t i = 0; i < merge->values.n; i++)
        total += (uint64_t)merge->values.at[i] * (1 + i % merge->model.types.n);
    return total;
}

/* With the in-use values of the samples; if there are those of several times, their sum. */
static int add(struct dp_model_merge *merge, const struct dp_decode *decode, struct dp_decode_error *error)
{
    struct dp_model_moments moments = {.at = {0}};
    DP_VEC(struct dp_model_merge_part) parts = {0};
    int err = dp_model_moments_read(decode, &moments);
    size_t n = moments.at.n;
    if (!err && n && !dp_vec_room(&parts, n))
        err = -ENOMEM;
    for (size_t i = 0; i < n && !err; i++)
        parts.at[i] = (struct dp_model_merge_part){.moment = moments.at.at[i], .counts = true};
    merge->keeps_moments = merge->with_inherited = n > 0;
    if (!err)
        err =
            n ? dp_model_merge_add(merge, decode, parts.at, n, error) : dp_model_merge_add_whole(merge, decode, error);
    dp_vec_fini(&parts);
    dp_vec_fini(&moments.at);
    return err;
}

static int read_profile(struct dp_model_merge *merge, const uint8_t *bytes, size_t n_bytes,
                        struct dp_decode_error *error)
{
    struct dp_decode decode = {0};
    int result = dp_decode_scan(&decode, bytes, n_bytes, error);
    if (!result)
        result = add(merge, &decode, error);
    if (!result)
        result = dp_model_merge_choose(merge);
    dp_decode_fini(&decode);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dp_decode_input input = {0};
    struct dp_model_merge first = {0}, second = {0};
    struct dp_decode_error error = {""};
    struct written written = {0};
    int result = dp_decode_input_copy(&input, data, size, LIMIT, &error);
    if (!result)
        result = read_profile(&first, input.bytes.at, input.bytes.n, &error);
    if (!result && first.model.types.n) {
        result = dp_model_merge_write(&first, keep, &written);
        if (!result) {
            result = read_profile(&second, written.bytes.at, written.bytes.n, &error);
            CHECK(result != -EBADMSG);
            CHECK(result || sum(&first) == sum(&second));
        }
    } else {
        CHECK(!result || error.line[0]);
    }
    dp_vec_fini(&written.bytes);
    dp_model_merge_fini(&first);
    dp_model_merge_fini(&second);
    dp_decode_input_fini(&input);
    CHECK(dp_mem_used() == 0);
    return 0;
}
