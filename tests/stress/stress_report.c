/* SPDX-License-Identifier: MIT */
/*
 * Threads allocate and free while consumers write, some to sinks that fail. The deltas of each consumer must add up
 * exactly to all events; no value is ever negative; in-use is zero after everything was freed.
 */
#include "../support/profiles.h"
#include "host/api/recording.h"
#include "host/report/settings.h"
#include "host/table/record.h"
#include "host/table/table.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define THREADS   4
#define CONSUMERS 3
#define RECORDS   200
#define PC(i)     (UINT64_C(0x1000) + 16 * (uint64_t)(i))

static dp_record_id ids[RECORDS];
static int64_t done[THREADS][RECORDS];
static _Atomic int stop;

#define MUST(true)                                             \
    do {                                                       \
        if (!(true)) {                                         \
            fprintf(stderr, "line %d: %s\n", __LINE__, #true); \
            exit(1);                                           \
        }                                                      \
    } while (0)

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13, *seed ^= *seed >> 7, *seed ^= *seed << 17;
    return *seed;
}

static void *allocate(void *arg)
{
    int64_t *mine = arg;
    uint64_t seed = (uintptr_t)arg | 1;
    while (!dp_load_relaxed(&stop)) {
        unsigned i = next_random(&seed) % RECORDS;
        int64_t n = 1 + (int64_t)(next_random(&seed) % 3);
        dp_table_add(DP_KIND_HEAP, ids[i], n, 16 * n);
        dp_table_add_free(DP_KIND_HEAP, ids[i], n, 16 * n);
        mine[i] += n;
    }
    return NULL;
}

struct consumer {
    struct dp_consumer *consumer;
    uint64_t seed;
    int64_t got[RECORDS][2];
    _Atomic unsigned n_failed, n_delivered;
    struct taken taken;
    struct said said;
};

static void deliver(struct consumer *c, bool may_fail)
{
    unsigned how = may_fail ? next_random(&c->seed) % 4 : 3;
    c->taken.fail_after = how == 0 ? 1 + next_random(&c->seed) % 5000 : 0;
    int err = dp_consumer_write(c->consumer, DP_WRITE_RAW, take, &c->taken, NULL);
    c->n_failed += err != 0 || how == 1;
    if (err) {
        MUST(err == -5);
        dp_vec_fini(&c->taken.bytes);
        return;
    }
    if (how == 1) { /* the delivery failed, as the sink learned later */
        MUST(!dp_consumer_abandon(c->consumer));
        dp_vec_fini(&c->taken.bytes);
        return;
    }
    MUST(!dp_consumer_commit(c->consumer));
    c->n_delivered++;
    read_taken(&c->taken, &c->said);
    for (size_t i = 0; i < c->said.n_rows; i++) {
        const struct said_row *row = &c->said.rows[i];
        size_t which = (row->leaf - PC(0)) / 16;
        MUST(which < RECORDS);
        for (int v = 0; v < 4; v++)
            MUST(row->values[v] >= 0);
        c->got[which][0] += row->values[0];
        c->got[which][1] += row->values[1];
    }
}

static void *consume(void *arg)
{
    while (!dp_load_relaxed(&stop))
        deliver(arg, true);
    return NULL;
}

int main(void)
{
    static struct consumer consumers[CONSUMERS];
    const char *text = getenv("DP_STRESS_MS");
    struct dp_config conf;
    dp_config_init(&conf);
    conf.symbolize = DP_SYMBOLIZE_NONE;
    MUST(!dp_record_init(&conf) && !dp_report_init(&conf));
    for (unsigned i = 0; i < RECORDS; i++) {
        dp_frame_id frames[] = {dp_frame_intern(PC(i))};
        struct dp_stack stack = {.hash = dp_stack_hash(frames, 1), .depth = 1, .frames = frames};
        MUST(dp_record_add(DP_KIND_HEAP, 0, 0, &stack, 0, 0, &ids[i]));
    }
    pthread_t threads[THREADS + CONSUMERS];
    for (int i = 0; i < CONSUMERS; i++) {
        consumers[i].consumer = dp_consumer_new(DELTAPROF_HEAP, NULL);
        consumers[i].seed = 77 + (uint64_t)i;
        MUST(!pthread_create(&threads[THREADS + i], NULL, consume, &consumers[i]));
    }
    for (int i = 0; i < THREADS; i++)
        MUST(!pthread_create(&threads[i], NULL, allocate, done[i]));
    struct timespec pause = {(text ? atoi(text) : 1000) / 1000, (text ? atoi(text) : 1000) % 1000 * 1000000L};
    nanosleep(&pause, NULL);
    for (int i = 0; i < CONSUMERS; i++)
        while (!dp_load_relaxed(&consumers[i].n_failed) || dp_load_relaxed(&consumers[i].n_delivered) < 2)
            usleep(1000);
    dp_store_relaxed(&stop, 1);
    for (int i = 0; i < THREADS + CONSUMERS; i++)
        pthread_join(threads[i], NULL);
    for (int c = 0; c < CONSUMERS; c++) {
        deliver(&consumers[c], false);
        MUST(consumers[c].said.sums[2] == 0 && consumers[c].said.sums[3] == 0);
        MUST(consumers[c].n_failed > 0 && consumers[c].n_delivered > 1);
        for (int i = 0; i < RECORDS; i++) {
            int64_t n = 0;
            for (int t = 0; t < THREADS; t++)
                n += done[t][i];
            MUST(consumers[c].got[i][0] == n && consumers[c].got[i][1] == 16 * n);
        }
        printf("consumer %d: %u delivered, %u failed\n", c, consumers[c].n_delivered, consumers[c].n_failed);
        dp_consumer_free(consumers[c].consumer);
    }
    return 0;
}
