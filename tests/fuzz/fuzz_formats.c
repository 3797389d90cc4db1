/* SPDX-License-Identifier: MIT */
/*
 * Fuzzes the readers of OTLP profiles, of folded stacks and of speedscope's files with any bytes: what one of them
 * accepts must be a profile that the decoder accepts, and must come back from OTLP and from speedscope with the same
 * sums.
 */
#include "formats/formats.h"
#include "model/merge.h"
#include "written.h"

static int64_t sum(const struct dp_merge *merge, bool of_all)
{
    uint64_t total = 0;
    for (size_t i = 0; i < merge->values.n; i++)
        if (of_all || merge->values.at[i] > 0)
            total += (uint64_t)merge->values.at[i] * (1 + i % merge->model.types.n);
    return (int64_t)total;
}

static int read_profile(struct dp_merge *merge, const struct written *pprof, struct dp_decode_error *error)
{
    struct dp_decode decode = {0};
    int err = dp_decode_scan(&decode, pprof->bytes.at, pprof->bytes.n, error);
    err = err ? err : dp_merge_add(merge, &decode, (struct dp_merge_place){DP_MERGE_NEWEST, 0}, error);
    err = err ? err : dp_merge_choose(merge);
    dp_decode_fini(&decode);
    return err;
}

static int write_other(const struct dp_merge *merge, bool is_otlp, struct written *out)
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
    int err =
        is_otlp ? dp_formats_write_otlp(&p, &origin, keep, out) : dp_formats_write_speedscope(&p, "fuzz", keep, out);
    dp_vec_fini(&rows);
    return err;
}

/* What was read must survive another round. speedscope has no negative values, and adds up stacks of equal names. */
static void judge_round(const struct dp_merge *first, bool is_otlp)
{
    struct dp_decode_error error = {""};
    struct dp_merge second = {0};
    struct written there = {0}, again = {0};
    int err = write_other(first, is_otlp, &there);
    if (!err && is_otlp)
        err = dp_formats_read_otlp(there.bytes.at, there.bytes.n, keep, &again, &error);
    else if (!err)
        err = dp_formats_read_speedscope(there.bytes.at, there.bytes.n, NULL, keep, &again, &error);
    CHECK(err != -EBADMSG || (!is_otlp && strstr(error.line, "too large")) || strstr(error.line, "module"));
    if (!err) {
        err = read_profile(&second, &again, &error);
        CHECK(err != -EBADMSG);
        CHECK(err || sum(first, is_otlp) == sum(&second, is_otlp));
    }
    dp_merge_fini(&second);
    dp_vec_fini(&there.bytes);
    dp_vec_fini(&again.bytes);
}

static void judge(const struct written *pprof)
{
    struct dp_decode_error error = {""};
    struct dp_merge first = {0};
    int err = read_profile(&first, pprof, &error);
    CHECK(err != -EBADMSG);
    if (!err && first.model.types.n && first.model.rows.n) {
        judge_round(&first, true);
        judge_round(&first, false);
    }
    dp_merge_fini(&first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dp_decode_error error;
    struct written pprof = {0};
    for (int format = 0; format < 3; format++) {
        *error.line = 0;
        dp_vec_clear(&pprof.bytes);
        int err = format == 0   ? dp_formats_read_otlp(data, size, keep, &pprof, &error)
                  : format == 1 ? dp_formats_read_folded(data, size, keep, &pprof, &error)
                                : dp_formats_read_speedscope(data, size, NULL, keep, &pprof, &error);
        CHECK(err != -EBADMSG || error.line[0]);
        if (!err)
            judge(&pprof);
    }
    dp_vec_fini(&pprof.bytes);
    CHECK(dp_mem_used() == 0);
    return 0;
}
