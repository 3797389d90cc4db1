/* SPDX-License-Identifier: MIT */
/*
 * What one delta_heap costs through http.h, from begin to end: 100,000 records of 32 frames, of which none, 2 % or all
 * changed since the cursor's last reply, and nothing is in use. Wall time in ms (the median;
 * it is made on a thread of ours while this one pulls), size in bytes, and the most that the profiler had mapped
 * beyond what it has between replies.
 */
#include "bench.h"

#include "base/mem.h"
#include "record/event.h"
#include "record/table.h"
#include "report/profile.h"
#include "sink/endpoint.h"

#include <deltaprof/hooks.h>
#include <deltaprof/http.h>
#include <errno.h>
#include <time.h>

#define RECORDS 100000u
#define DEPTH   32u
#define ADDRESS ((uintptr_t)0x500000000000)

static dp_record_id ids[RECORDS];
static size_t next;

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32, x *= 0xE9846AF9B1A615D5u;
    return x ^ x >> 29;
}

static void touch(size_t n)
{
    for (size_t i = 0; i < n; i++, next++) {
        dp_record_id id = ids[next % RECORDS];
        dp_table_add(DP_KIND_HEAP, id, 1, 100);
        dp_table_add_free(DP_KIND_HEAP, id, 1, 100);
    }
}

static void make_records(void)
{
    for (unsigned i = 0; i < RECORDS; i++) {
        dp_frame_id frames[DEPTH];
        for (unsigned k = 0; k < DEPTH; k++) {
            uint64_t nodes = k ? (uint64_t)1 << (DEPTH - 1 - k) / 2 : RECORDS;
            frames[k] = dp_frame_intern(ADDRESS + 16 * (mix(mix(i) % nodes * 64 + k) % 30000));
        }
        frames[0] = dp_frame_intern(ADDRESS + 16 * (size_t)i);
        struct dp_stack stack = {.hash = dp_stack_hash(frames, DEPTH), .depth = DEPTH, .frames = frames};
        ids[i] = dp_table_intern(DP_KIND_HEAP, 0, 0, &stack);
        dp_table_add(DP_KIND_HEAP, ids[i], 4, 1000);
        dp_table_add_free(DP_KIND_HEAP, ids[i], 4, 1000);
    }
}

static double ask(size_t *n_bytes, size_t *peak)
{
    struct deltaprof_http_request request = {"GET", "/debug/pprof/delta_heap?cursor=bench&types=alloc&symbolize=none",
                                             NULL, 0};
    struct deltaprof_http_reply *reply;
    char buf[16384];
    size_t before = dp_mem_used();
    double began_ms = bench_clock_ns(CLOCK_MONOTONIC) / 1e6;
    *n_bytes = *peak = 0;
    if (deltaprof_http_begin(&request, &reply) || deltaprof_http_status(reply) != 200)
        exit(1);
    for (;;) {
        ssize_t n = deltaprof_http_read(reply, buf, sizeof buf);
        size_t used = dp_mem_used();
        if (used > before && used - before > *peak)
            *peak = used - before;
        if (n == 0)
            break;
        if (n > 0)
            *n_bytes += (size_t)n;
        else if (n == -EAGAIN)
            nanosleep(&(struct timespec){0, 20000}, NULL);
        else
            exit(1);
    }
    deltaprof_http_end(reply, 1);
    return bench_clock_ns(CLOCK_MONOTONIC) / 1e6 - began_ms;
}

int main(void)
{
    struct dp_config conf;
    dp_config_init(&conf);
    conf.memory = (int64_t)1 << 30;
    conf.symbolize = DP_SYMBOLIZE_NONE;
    if (dp_record_init(&conf) || dp_report_init(&conf))
        return 1;
    dp_endpoint_init(&conf);
    make_records();
    static const struct {
        const char *name;
        size_t changed;
    } shares[] = {{"none", 0}, {"2pc", RECORDS / 50}, {"all", RECORDS}};
    size_t n_bytes, peak;
    ask(&n_bytes, &peak);
    printf("delta_heap_first_bytes %zu bytes\n", n_bytes);
    for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
        double ms[11];
        size_t most = 0;
        for (int i = 0; i < 11; i++) {
            touch(shares[s].changed);
            ms[i] = ask(&n_bytes, &peak);
            most = peak > most ? peak : most;
        }
        printf("delta_heap_%s %.2f ms\n", shares[s].name, bench_median(ms, 11));
        printf("delta_heap_%s_bytes %zu bytes\n", shares[s].name, n_bytes);
        printf("delta_heap_%s_extra_memory %zu bytes\n", shares[s].name, most);
    }
    return 0;
}
