/* SPDX-License-Identifier: MIT */
/*
 * Fuzzes diff with two raw profiles; the first byte selects the treatment of negative values, the next two give the
 * start of the second profile. The output must be a valid profile; a profile minus itself has no flow; and a diff that
 * parses every sample gives the same result as one that recognizes repeated samples.
 */
#include "tool/model/diff.h"
#include "written.h"

static int add(struct dp_model_diff *diff, const uint8_t *bytes, size_t n_bytes)
{
    struct dp_decode decode = {0};
    struct dp_decode_error error = {""};
    int result = dp_decode_scan(&decode, bytes, n_bytes, &error);
    if (!result)
        result = dp_model_diff_add(diff, &decode, &error);
    CHECK(!result || error.line[0]);
    dp_decode_fini(&decode);
    return result;
}

/* What diff writes is a profile, and no flow of it is negative unless that was asked for. */
static void check_written(struct dp_model_diff *diff, int no_flows)
{
    struct written written = {0};
    struct dp_model_diff_result found;
    struct dp_decode decode = {0};
    struct dp_decode_sample sample = {0};
    struct dp_decode_error error;
    if (!dp_model_diff_write(diff, keep, &written, &found)) {
        int result = dp_decode_scan(&decode, written.bytes.at, written.bytes.n, &error);
        CHECK(result != -EBADMSG);
        CHECK(result || decode.samples.n == found.n_rows);
        for (size_t i = 0; i < decode.samples.n && !result; i++) {
            result = dp_decode_sample(&decode, i, &sample, &error);
            CHECK(result != -EBADMSG);
            for (size_t j = 0; j < sample.values.n && !result; j++) {
                int is_flow = diff->is_flow.at[j];
                CHECK(!is_flow || diff->negative == DP_DIFF_KEEP || sample.values.at[j] >= 0);
                CHECK(!is_flow || !no_flows || sample.values.at[j] == 0);
            }
        }
    }
    dp_decode_sample_fini(&sample);
    dp_decode_fini(&decode);
    dp_vec_fini(&written.bytes);
}

struct pair {
    const uint8_t *old, *new;
    size_t n_old, n_new;
};

/* old, new, new; what the second and the third turn wrote goes to `written`. 0 or the first error. */
static int run(struct dp_model_diff *diff, const struct pair *pair, int forgetful, struct written *written)
{
    struct dp_model_diff_result found;
    int result = add(diff, pair->old, pair->n_old);
    for (int turn = 0; turn < 2 && !result; turn++) {
        if (forgetful)
            dp_vec_clear(&diff->model.repeat.offsets);
        result = add(diff, pair->new, pair->n_new);
        if (!result && !forgetful)
            check_written(diff, turn == 1);
        if (!result)
            result = dp_model_diff_write(diff, keep, written, &found);
    }
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    size_t n_old = data[1] | (size_t)data[2] << 8, n_all = size - 3;
    if (n_old > n_all)
        n_old = n_all;
    struct pair pair = {data + 3, data + 3 + n_old, n_old, n_all - n_old};
    struct dp_model_diff diff = {.negative = data[0] % 3}, forgetful = diff;
    struct written written = {0}, expected = {0};
    int result = run(&diff, &pair, 0, &written), other = run(&forgetful, &pair, 1, &expected);
    if (result != -ENOMEM && other != -ENOMEM) {
        CHECK(result == other && written.bytes.n == expected.bytes.n);
        CHECK(!written.bytes.n || !memcmp(written.bytes.at, expected.bytes.at, written.bytes.n));
    }
    dp_vec_fini(&written.bytes);
    dp_vec_fini(&expected.bytes);
    dp_model_diff_fini(&diff);
    dp_model_diff_fini(&forgetful);
    CHECK(dp_mem_used() == 0);
    return 0;
}
