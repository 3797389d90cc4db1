/* SPDX-License-Identifier: MIT */
/*
 * Measures src/pprof and src/tool/model: encoding 100,000 rows of 32 frames, reading them, and `diff --stream` between
 * profiles of which 0, 2 or 100 % of the rows have changed; 2 % have something in use. Without gzip; one core.
 */
#include "base/hash.h"
#include "base/mem.h"
#include "bench.h"
#include "tool/model/diff.h"
#include "pprof/encode.h"

#define N_ROWS      100000
#define N_LOCATIONS 20000
#define N_FUNCTIONS 8000
#define DEPTH       32

struct memory {
    DP_VEC(uint8_t) bytes;
};

static int keep(void *ctx, const void *bytes, size_t n_bytes)
{
    struct memory *memory = ctx;
    if (!dp_vec_room(&memory->bytes, n_bytes))
        abort();
    memcpy(memory->bytes.at + memory->bytes.n, bytes, n_bytes);
    memory->bytes.n += n_bytes;
    return 0;
}

static int drop(void *ctx, const void *bytes, size_t n_bytes)
{
    *(size_t *)ctx += n_bytes;
    return 0;
}

static uint64_t stacks[N_ROWS][DEPTH];

/* Stacks share the frames near the root, as in a program. */
static void make_stacks(void)
{
    static uint32_t ids[N_LOCATIONS];
    uint32_t n = 0;
    for (uint64_t row = 0; row < N_ROWS; row++)
        for (uint64_t k = 0; k < DEPTH; k++) {
            uint32_t *id = &ids[dp_hash_mix((row >> k / 2) * DEPTH + k) % N_LOCATIONS];
            stacks[row][k] = *id ? *id : (*id = ++n);
        }
}

static void put_locations(struct dp_encode *e)
{
    char name[64];
    int64_t file = dp_encode_string(e, "/usr/bin/server", 15), build_id = dp_encode_string(e, "00112233", 8);
    for (uint64_t i = 0; i < N_LOCATIONS; i++) {
        int n = snprintf(name, sizeof name, "namespace::class_%d::method_%d", (int)(i % N_FUNCTIONS / 10),
                         (int)(i % N_FUNCTIONS));
        int64_t string = dp_encode_string(e, name, (size_t)n);
        struct dp_encode_line line = {.function = dp_encode_function(e, string, string, file, 1),
                                      .line = (int64_t)(i % 1000)};
        dp_encode_location(e, 1, 0x400000 + 16 * dp_hash_mix(i) % 0x10000000, &line, 1);
    }
    dp_encode_mapping(
        e, &(struct dp_encode_mapping){.start = 0x400000, .limit = 0x10400000, .file = file, .build_id = build_id});
}

/* Every change_1_in-th row is higher by `turn`; 0: none is. */
static double encode(dp_pprof_write_fn fn, void *ctx, int turn, unsigned change_1_in)
{
    static const struct dp_encode_value_type types[] = {
        {"alloc_objects", "count"}, {"alloc_space", "bytes"}, {"inuse_objects", "count"}, {"inuse_space", "bytes"}};
    double begin = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    struct dp_encode *e = dp_encode_new(fn, ctx);
    dp_encode_header(e, &(struct dp_encode_header){.types = types, .n_types = 4, .time_ns = 1000 + turn});
    int64_t unit = dp_encode_string(e, "bytes", 5);
    for (uint32_t row = 0; row < N_ROWS; row++) {
        int64_t n = 1 + row % 1000 + (change_1_in && row % change_1_in == 0 ? turn : 0);
        int64_t in_use = row % 50 ? 0 : n / 2 + 1;
        int64_t values[] = {n, n * 256, in_use, in_use * 256};
        struct dp_encode_label label = {.key = unit, .num = 256, .num_unit = unit};
        dp_encode_sample(e, stacks[row], DEPTH, values, &label, 1);
    }
    put_locations(e);
    if (dp_encode_finish(e))
        abort();
    dp_encode_free(e);
    return bench_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
}

static double scan_all(const struct memory *memory)
{
    static struct dp_decode decode;
    static struct dp_decode_sample sample;
    double begin = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (dp_decode_scan(&decode, memory->bytes.at, memory->bytes.n, NULL))
        abort();
    for (size_t i = 0; i < decode.samples.n; i++)
        if (dp_decode_sample(&decode, i, &sample, NULL))
            abort();
    return bench_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
}

static void bench_diff(unsigned percent)
{
    double ns[BENCH_ROUNDS_MAX];
    int rounds = bench_rounds();
    struct memory input = {0};
    struct dp_model_diff diff = {0};
    struct dp_decode decode = {0};
    size_t n_out = 0, used = dp_mem_used();
    for (int i = 0; i < rounds + 2; i++) {
        struct dp_model_diff_result found;
        input.bytes.n = n_out = 0;
        encode(keep, &input, i, percent ? 100 / percent : 0);
        double begin = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        if (dp_decode_scan(&decode, input.bytes.at, input.bytes.n, NULL) || dp_model_diff_add(&diff, &decode, NULL) ||
            dp_model_diff_write(&diff, drop, &n_out, &found))
            abort();
        if (i >= 2)
            ns[i - 2] = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
    }
    char name[64];
    double median = bench_median(ns, rounds);
    snprintf(name, sizeof name, "diff_%u_percent_changed", percent);
    bench_print(name, (double)input.bytes.n / median * 1e3, "MB/s");
    bench_print(name, median / 1e6, "ms");
    bench_print(name, (double)n_out / 1e6, "MB_out");
    if (percent == 2)
        bench_print("diff_memory_besides_its_input", (double)(dp_mem_used() - used - input.bytes.cap) / 1e6, "MB");
    dp_model_diff_fini(&diff);
    dp_decode_fini(&decode);
    dp_vec_fini(&input.bytes);
}

int main(void)
{
    double ns[BENCH_ROUNDS_MAX];
    int rounds = bench_rounds();
    struct memory memory = {0};
    size_t n = 0;
    dp_mem_cap(SIZE_MAX);
    make_stacks();
    encode(keep, &memory, 0, 0);
    bench_print("profile", (double)memory.bytes.n / 1e6, "MB");
    for (int i = 0; i < rounds; i++)
        ns[i] = encode(drop, &n, 0, 0);
    bench_print("encode_100k_rows_of_32_frames", bench_median(ns, rounds) / 1e6, "ms");
    for (int i = 0; i < rounds; i++)
        ns[i] = scan_all(&memory);
    bench_print("read", (double)memory.bytes.n / bench_median(ns, rounds) * 1e3, "MB/s");
    bench_diff(0);
    bench_diff(2);
    bench_diff(100);
    return 0;
}
