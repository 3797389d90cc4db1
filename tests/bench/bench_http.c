/* SPDX-License-Identifier: MIT */
/*
 * Measures one delta_heap through http.h, from begin to end: the 100,000 records of bench_delta, of which none, 2 % or
 * all changed since the cursor's last reply; nothing is in use. A thread of the profiler makes the reply while this
 * thread reads it. Prints the medians of the processor time of both threads and of the elapsed time, in ms, then the
 * size, and the largest amount of memory that the profiler mapped in addition during a reply.
 */
#include "bench.h"

#include "base/mem.h"
#include "host/http/endpoint.h"
#include "host/api/recording.h"
#include "host/report/profile.h"
#include "host/report/settings.h"
#include "host/table/table.h"

#include <deltaprof/hooks.h>
#include <deltaprof/http.h>
#include <errno.h>
#include <time.h>

#define RECORDS 100000u
#define DEPTH   BENCH_DEPTH
#define ADDRESS ((uintptr_t)0x500000000000)

static dp_record_id ids[RECORDS];
static size_t next;

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
        for (unsigned k = 0; k < DEPTH; k++)
            frames[k] = dp_frame_intern(ADDRESS + 16 * bench_call_site(i, DEPTH - 1 - k));
        struct dp_stack stack = {.hash = dp_stack_hash(frames, DEPTH), .depth = DEPTH, .frames = frames};
        ids[i] = dp_table_intern(DP_KIND_HEAP, 0, 0, &stack);
        dp_table_add(DP_KIND_HEAP, ids[i], 4, 1000);
        dp_table_add_free(DP_KIND_HEAP, ids[i], 4, 1000);
    }
}

struct cost {
    double cpu_ms, wall_ms;
    size_t n_bytes, peak;
};

static struct cost ask(void)
{
    struct deltaprof_http_request request = {"GET", "/debug/pprof/delta_heap?cursor=bench&types=alloc&symbolize=none",
                                             NULL, 0};
    struct deltaprof_http_reply *reply;
    char buf[16384];
    size_t before = dp_mem_used();
    double cpu_ns = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID), wall_ns = bench_clock_ns(CLOCK_MONOTONIC);
    struct cost cost = {0};
    if (deltaprof_http_begin(&request, &reply) || deltaprof_http_status(reply) != 200)
        exit(1);
    for (;;) {
        ssize_t n = deltaprof_http_read(reply, buf, sizeof buf);
        size_t used = dp_mem_used();
        if (used > before && used - before > cost.peak)
            cost.peak = used - before;
        if (n == 0)
            break;
        if (n > 0)
            cost.n_bytes += (size_t)n;
        else if (n == -EAGAIN)
            nanosleep(&(struct timespec){0, 20000}, NULL);
        else
            exit(1);
    }
    deltaprof_http_end(reply, 1);
    cost.cpu_ms = (bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns) / 1e6;
    cost.wall_ms = (bench_clock_ns(CLOCK_MONOTONIC) - wall_ns) / 1e6;
    return cost;
}

int main(void)
{
    struct dp_config conf;
    dp_config_init(&conf);
    conf.memory = (int64_t)1 << 30;
    conf.symbolize = DP_SYMBOLIZE_NONE;
    if (dp_record_init(&conf) || dp_report_init(&conf))
        return 1;
    dp_http_endpoint_init(&conf);
    make_records();
    static const struct {
        const char *name;
        size_t changed;
    } shares[] = {{"none", 0}, {"2pc", RECORDS / 50}, {"all", RECORDS}};
    printf("delta_heap_first_bytes %zu bytes\n", ask().n_bytes);
    for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
        enum { ROUNDS = 11 };
        double cpu_ms[ROUNDS], wall_ms[ROUNDS];
        struct cost cost;
        size_t most = 0;
        for (int i = 0; i < ROUNDS; i++) {
            touch(shares[s].changed);
            cost = ask();
            cpu_ms[i] = cost.cpu_ms;
            wall_ms[i] = cost.wall_ms;
            most = cost.peak > most ? cost.peak : most;
        }
        printf("delta_heap_%s %.2f ms\n", shares[s].name, bench_median(cpu_ms, ROUNDS));
        printf("delta_heap_%s_wall %.2f ms\n", shares[s].name, bench_median(wall_ms, ROUNDS));
        printf("delta_heap_%s_bytes %zu bytes\n", shares[s].name, cost.n_bytes);
        printf("delta_heap_%s_extra_memory %zu bytes\n", shares[s].name, most);
    }
    return 0;
}
