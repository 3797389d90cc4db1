/* SPDX-License-Identifier: MIT */
/*
 * Compares three ways to make the same delta, on the same records, in one run: OG writes the whole cumulative profile;
 * fastdelta writes it and then subtracts serialised profiles; deltaprof subtracts the raw counters, from its own table
 * (`table`) or from records that a runtime hands in, without ids (`records`) and with (`ids`). Output is gzipped and
 * discarded; names are off, since they would cost the same in all ways. Prints `name value unit`: medians of processor
 * time in ms, and sizes in bytes.
 *
 * DP_BENCH_WORLD=N, DP_BENCH_WAY=NAME and DP_BENCH_SHARE=PERCENT run one of them alone.
 *
 * 32 frames a stack, as a tree: roots are shared, leaves are not; 10,000 distinct call sites in code of the C library.
 * Nothing is in use, except in `seeds`, which has the shape of two Go programs (about 209 KB whole, 10 KB of delta):
 * one percent of its records is in use, and one percent changes.
 */
#include "bench.h"

#include "base/mem.h"
#include "base/stats.h"
#include "tool/model/diff.h"
#include "pprof/decode.h"
#include "pprof/gzip.h"
#include "host/api/recording.h"
#include "host/report/profile.h"
#include "host/records/runtime_source.h"
#include "host/report/settings.h"
#include "host/table/table.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEPTH BENCH_DEPTH

static struct {
    size_t n;
    uintptr_t *values; /* n * DEPTH */
    struct deltaprof_heap_record *records, *with_ids;
    dp_record_id *ids;
    uintptr_t code; /* of the C library: BENCH_SITES call sites */
    size_t n_changed;
    size_t next; /* the next record to change */
} world;

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "bench_delta: %s\n", what);
        exit(1);
    }
}

static void make_world(size_t n)
{
    struct dp_config conf;
    dp_config_init(&conf);
    conf.memory = (int64_t)1 << 30;
    conf.symbolize = DP_SYMBOLIZE_NONE;
    must(!dp_record_init(&conf) && !dp_report_init(&conf), "no tables");
    dp_mem_cap((size_t)4 << 30);
    Dl_info libc;
    must(dladdr((const void *)(uintptr_t)getppid, &libc), "no C library");
    world.code = (uintptr_t)libc.dli_fbase + 0x40000;
    world.n = n;
    world.values = calloc(n * DEPTH, sizeof *world.values);
    world.records = calloc(n, sizeof *world.records);
    world.with_ids = calloc(n, sizeof *world.with_ids);
    world.ids = calloc(n, sizeof *world.ids);
    for (size_t i = 0; i < n; i++) {
        dp_frame_id frames[DEPTH];
        for (unsigned k = 0; k < DEPTH; k++) {
            uintptr_t pc = world.code + 16 * bench_call_site(i, DEPTH - 1 - k);
            frames[k] = dp_frame_intern(pc);
            world.values[i * DEPTH + k] = pc + 1;
        }
        struct dp_stack stack = {.hash = dp_stack_hash(frames, DEPTH), .depth = DEPTH, .frames = frames};
        world.ids[i] = dp_table_intern(DP_KIND_HEAP, 0, 0, &stack);
        must(world.ids[i] != 0 && frames[0], "the table is full");
        world.records[i] = (struct deltaprof_heap_record){.stack = &world.values[i * DEPTH], .depth = DEPTH};
        world.with_ids[i] = world.records[i];
        world.with_ids[i].id = (uintptr_t)&world.with_ids[i];
    }
}

static void change(size_t i, bool freed)
{
    int64_t size = 16 + (int64_t)(bench_mix(i) % 64) * 16;
    dp_table_add(DP_KIND_HEAP, world.ids[i], 1, size);
    if (freed)
        dp_table_add_free(DP_KIND_HEAP, world.ids[i], 1, size);
    struct deltaprof_heap_record *both[] = {&world.records[i], &world.with_ids[i]};
    for (int k = 0; k < 2; k++) {
        both[k]->alloc_objects++;
        both[k]->alloc_bytes += size;
        both[k]->free_objects += freed;
        both[k]->free_bytes += freed ? size : 0;
    }
}

static void change_share(void)
{
    for (size_t k = 0; k < world.n_changed; k++) {
        change(world.next, true);
        world.next = (world.next + 7919) % world.n; /* scattered: steps by 7919, a prime that divides no n used here */
    }
}

/* ---- the ways --------------------------------------------------------------------------------------------------- */

static int count(void *ctx, const void *bytes, size_t n_bytes)
{
    *(size_t *)ctx += n_bytes;
    return 0;
}

struct bytes {
    DP_VEC(char) all;
};

static int keep(void *ctx, const void *bytes, size_t n_bytes)
{
    struct bytes *b = ctx;
    char *room = dp_vec_room(&b->all, n_bytes);
    must(room != NULL, "no memory");
    memcpy(room, bytes, n_bytes);
    b->all.n += n_bytes;
    return 0;
}

static struct dp_consumer *of_table, *of_records, *of_ids, *whole;
static struct dp_model_diff diff;
static struct bytes zipped;
static struct dp_decode_input input;
static struct dp_decode decode;

static size_t table(void)
{
    size_t n_bytes = 0;
    must(!dp_consumer_write(of_table, 0, count, &n_bytes, NULL) && !dp_consumer_commit(of_table), "table");
    return n_bytes;
}

static size_t records(void)
{
    size_t n_bytes = 0;
    struct dp_records_dump dump = {.heap = world.records, .n = world.n};
    must(!dp_records_consumer_write_dump(of_records, dump, 1, count, &n_bytes) && !dp_consumer_commit(of_records),
         "records");
    return n_bytes;
}

static size_t ids(void)
{
    size_t n_bytes = 0;
    struct dp_records_dump dump = {.heap = world.with_ids, .n = world.n};
    must(!dp_records_consumer_write_dump(of_ids, dump, 1, count, &n_bytes) && !dp_consumer_commit(of_ids), "ids");
    return n_bytes;
}

static size_t og(void)
{
    size_t n_bytes = 0;
    must(!dp_consumer_write(whole, DP_WRITE_CUMULATIVE, count, &n_bytes, NULL), "og");
    return n_bytes;
}

static size_t fastdelta(void)
{
    size_t n_bytes = 0;
    struct dp_decode_error error;
    struct dp_model_diff_result result;
    dp_vec_clear(&zipped.all);
    must(!dp_consumer_write(whole, DP_WRITE_CUMULATIVE, keep, &zipped, NULL), "whole");
    must(!dp_decode_input_copy(&input, zipped.all.at, zipped.all.n, DP_DECODE_LIMIT, &error), "inflate");
    must(!dp_decode_scan(&decode, input.bytes.at, input.bytes.n, &error), "decode");
    must(!dp_model_diff_add(&diff, &decode, &error), "diff");
    struct dp_gzip *gzip = dp_gzip_new(count, &n_bytes);
    must(!dp_model_diff_write(&diff, dp_gzip_write, gzip, &result) && !dp_gzip_finish(gzip), "diff write");
    dp_gzip_free(gzip);
    return n_bytes;
}

static const struct {
    const char *name;
    size_t (*write)(void);
} ways[] = {{"og", og}, {"fastdelta", fastdelta}, {"records", records}, {"ids", ids}, {"table", table}};
enum { WAYS = sizeof ways / sizeof *ways };

static void measure(const char *shape)
{
    static double ms[WAYS][BENCH_ROUNDS_MAX];
    size_t n_bytes[WAYS];
    char name[64];
    int rounds = bench_rounds();
    const char *only = getenv("DP_BENCH_WAY");
    for (int round = -2; round < rounds; round++) { /* two to warm up: first deltas have all records */
        change_share();
        for (size_t w = 0; w < WAYS; w++) {
            if (only && strcmp(only, ways[w].name))
                continue;
            double begin = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
            n_bytes[w] = ways[w].write();
            if (round >= 0)
                ms[w][round] = (bench_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / 1e6;
        }
    }
    for (size_t w = 0; w < WAYS; w++) {
        if (only && strcmp(only, ways[w].name))
            continue;
        snprintf(name, sizeof name, "delta.%s.%s", shape, ways[w].name);
        bench_print(name, bench_median(ms[w], rounds), "ms");
        snprintf(name, sizeof name, "delta.%s.%s.best", shape, ways[w].name);
        bench_print(name, ms[w][0], "ms"); /* sorted by now */
        snprintf(name, sizeof name, "delta.%s.%s.size", shape, ways[w].name);
        bench_print(name, (double)n_bytes[w], "bytes");
    }
}

static void run(size_t n, bool seeds)
{
    make_world(n);
    of_table = dp_consumer_new(DELTAPROF_HEAP, NULL);
    of_records = dp_consumer_new(DELTAPROF_HEAP | DELTAPROF_MIXED_SIZES, NULL);
    of_ids = dp_consumer_new(DELTAPROF_HEAP | DELTAPROF_MIXED_SIZES, NULL);
    whole = dp_consumer_new(DELTAPROF_HEAP, NULL);
    for (size_t i = 0; i < n; i++)
        change(i, !seeds || i % 100);
    char shape[32];
    static const int shares[] = {0, 2, 100};
    for (size_t s = 0; s < (seeds ? 1 : 3); s++) {
        world.n_changed = seeds ? n / 100 : n * (size_t)shares[s] / 100;
        const char *share = getenv("DP_BENCH_SHARE");
        if (share && !seeds && atoi(share) != shares[s])
            continue;
        snprintf(shape, sizeof shape, seeds ? "seeds" : "%zu.%d%%", n, shares[s]);
        measure(shape);
    }
}

int main(void)
{
    static const struct {
        size_t n;
        bool seeds;
    } worlds[] = {{512, false}, {10000, false}, {100000, false}, {4000, true}};
    const char *only = getenv("DP_BENCH_WORLD");
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        if (only && atoi(only) != (int)worlds[i].n)
            continue;
        fflush(stdout);
        pid_t pid = fork(); /* the table can be made only once per process */
        if (pid == 0) {
            run(worlds[i].n, worlds[i].seeds);
            exit(0);
        }
        int status = 1;
        waitpid(pid, &status, 0);
        must(pid > 0 && status == 0, "a world failed");
    }
    return 0;
}
