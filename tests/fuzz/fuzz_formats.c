/* SPDX-License-Identifier: MIT */
/*
 * Fuzzes the reader of folded stacks and the writers of other formats with any bytes: accepted text must be a profile
 * that the decoder accepts, and must come back from folded stacks with the same sum. OTLP and speedscope are written.
 */
#include "tool/formats/formats.h"
#include "tool/model/merge.h"
#include "written.h"

static uint64_t sum(const struct dp_model_merge *merge)
{
    uint64_t total = 0;
    for (size_t i = 0; i < merge->values.n; i++)
        total += (uint64_t)merge->values.at[i];
    return total;
}

static int read_profile(struct dp_model_merge *merge, const struct written *pprof, struct dp_decode_error *error)
{
    struct dp_decode decode = {0};
    int err = dp_decode_scan(&decode, pprof->bytes.at, pprof->bytes.n, error);
    err = err ? err : dp_model_merge_add_whole(merge, &decode, error);
    err = err ? err : dp_model_merge_choose(merge);
    dp_decode_fini(&decode);
    return err;
}

enum format { FOLDED, OTLP, SPEEDSCOPE };

static int write_other(const struct dp_model_merge *merge, enum format format, struct written *out)
{
    DP_VEC(uint32_t) rows = {0};
    if (!dp_vec_room(&rows, merge->model.rows.n + 1))
        return -ENOMEM;
    for (uint32_t row = 0; row < merge->model.rows.n; row++)
        rows.at[rows.n++] = row;
    struct dp_formats_profile p = {.model = &merge->model,
                                   .header = &merge->header,
                                   .values = merge->values.at,
                                   .rows = rows.at,
                                   .n_rows = rows.n,
                                   .n_types = (uint32_t)merge->model.types.n};
    struct dp_formats_origin origin = {0};
    int err = format == FOLDED ? dp_formats_write_folded(&p, 0, keep, out)
              : format == OTLP ? dp_formats_write_otlp(&p, &origin, keep, out)
                               : dp_formats_write_speedscope(&p, "fuzz", keep, out);
    dp_vec_fini(&rows);
    return err;
}

static void judge_round(const struct dp_model_merge *first)
{
    struct dp_decode_error error = {""};
    struct dp_model_merge second = {0};
    struct written there = {0}, again = {0};
    int err = write_other(first, FOLDED, &there);
    err = err ? err : dp_formats_read_folded(there.bytes.at, there.bytes.n, keep, &again, &error);
    CHECK(err != -EBADMSG);
    if (!err) {
        err = read_profile(&second, &again, &error);
        CHECK(err != -EBADMSG);
        CHECK(err || sum(first) == sum(&second));
    }
    dp_model_merge_fini(&second);
    dp_vec_fini(&there.bytes);
    dp_vec_fini(&again.bytes);
}

static void judge(const struct written *pprof)
{
    struct dp_decode_error error = {""};
    struct dp_model_merge first = {0};
    int err = read_profile(&first, pprof, &error);
    CHECK(err != -EBADMSG);
    if (!err && first.model.types.n && first.model.rows.n) {
        judge_round(&first);
        for (enum format format = OTLP; format <= SPEEDSCOPE; format++) {
            struct written out = {0};
            CHECK(write_other(&first, format, &out) != -EBADMSG);
            dp_vec_fini(&out.bytes);
        }
    }
    dp_model_merge_fini(&first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dp_decode_error error = {""};
    struct written pprof = {0};
    int err = dp_formats_read_folded(data, size, keep, &pprof, &error);
    CHECK(err != -EBADMSG || error.line[0]);
    if (!err)
        judge(&pprof);
    dp_vec_fini(&pprof.bytes);
    CHECK(dp_mem_used() == 0);
    return 0;
}
