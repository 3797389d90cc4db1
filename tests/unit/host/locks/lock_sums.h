/* SPDX-License-Identifier: MIT */
/* lock_sums.h - for tests of waits: starts the record store, sets the rates, and sums both lock profiles by label. */
#pragma once

#include "support/unit.h"

#include "base/clock.h"
#include "base/stats.h"
#include "host/table/labels.h"
#include "host/api/recording.h"
#include "host/locks/wait.h"
#include "host/locks/contended.h"
#include "host/table/table.h"

#include <deltaprof/hooks.h>

static struct dp_config conf;
static uint64_t locks[4096]; /* locks are known by their addresses only */

static void tune(int64_t mutex_rate, int64_t block_rate_ns)
{
    conf.mutex_rate = mutex_rate;
    conf.block_rate_ns = block_rate_ns;
    dp_record_tune(&conf, true);
}

static int start(void **state)
{
    dp_config_init(&conf);
    conf.heap_rate = 0;
    tune(1, 1);
    return dp_record_init(&conf);
}

/* Sums of one kind of profile over the rows with this label (0: all) and leaf frame (0: all). */
static struct dp_counts sum(unsigned kind, unsigned label, dp_frame_id leaf)
{
    struct dp_counts sum = {0}, one;
    for (uint32_t id = 0; id < dp_table_count(kind); id++) {
        const struct dp_record *record = dp_table_record(kind, id);
        if ((label && record->labels != dp_labels_of_lock(label)) || (leaf && dp_table_frames(record)[0] != leaf))
            continue;
        dp_table_read(kind, id, &one);
        sum.n += one.n, sum.v += one.v;
    }
    return sum;
}

static struct dp_counts before_mutex[DP_LABELS_LOCKS], before_block[DP_LABELS_LOCKS];
static void mark(void)
{
    for (unsigned label = 0; label < DP_LABELS_LOCKS; label++) {
        before_mutex[label] = sum(DP_KIND_MUTEX, label, 0);
        before_block[label] = sum(DP_KIND_BLOCK, label, 0);
    }
}
static int64_t mutex_ns(unsigned label)
{
    return sum(DP_KIND_MUTEX, label, 0).v - before_mutex[label].v;
}
static int64_t block_ns(unsigned label)
{
    return sum(DP_KIND_BLOCK, label, 0).v - before_block[label].v;
}
static int64_t contentions(unsigned label)
{
    return sum(DP_KIND_MUTEX, label, 0).n - before_mutex[label].n;
}

static bool release(const void *lock)
{
    struct deltaprof_owed owed;
    if (!deltaprof_lock_may_have_waiters(lock) || !deltaprof_lock_unlock_begin(&owed, lock))
        return false;
    deltaprof_lock_unlock_end(&owed, NULL);
    return true;
}
