/* SPDX-License-Identifier: MIT */
/*
 * host/locks/lock_source.c - reports of the kinds mutex, block and chain: futexes as the locks that they are part of. A
 * row is {contentions, delay}.
 */
#include "base/text.h"
#include "host/locks/alarm.h"
#include "host/locks/chain_source.h"
#include "host/locks/title.h"
#include "host/locks/futex_class.h"
#include "host/table/labels.h"
#include "host/locks/wait.h"
#include "host/report/emit.h"
#include "host/report/kind_source.h"
#include "host/report/profile.h"
#include "host/locks/lock_names.h"
#include "host/locks/lock_rows.h"

static bool is_filtered(const struct dp_record *record, unsigned locks)
{
    /* what a futex is part of is decided later */
    return locks && !dp_labels_is_futex(record->labels) && !(locks >> dp_labels_lock(record->labels) & 1);
}

static unsigned mutex_lock_of(const struct dp_record *record, bool *shown)
{
    return dp_futex_lock_of(DP_KIND_MUTEX, record, shown);
}

static unsigned block_lock_of(const struct dp_record *record, bool *shown)
{
    return dp_futex_lock_of(DP_KIND_BLOCK, record, shown);
}

/* A chain has the lock of its holder. */
static unsigned chain_lock_of(const struct dp_record *record, bool *shown)
{
    return dp_futex_lock_of(DP_KIND_CHAIN, record, shown);
}

static const struct dp_delta_rules mutex_rules = {
    .kind = DP_KIND_MUTEX, .is_filtered = is_filtered, .lock_of = mutex_lock_of};
static const struct dp_delta_rules chain_rules = {
    .kind = DP_KIND_CHAIN, .is_filtered = is_filtered, .lock_of = chain_lock_of};
static const struct dp_delta_rules block_rules = {
    .kind = DP_KIND_BLOCK, .prepare = dp_wait_count_under_way, .is_filtered = is_filtered, .lock_of = block_lock_of};

static void block_prepare(const struct dp_consumer *c, unsigned flags, struct dp_emission *e)
{
    (void)c;
    e->has_stuck = !(flags & DP_WRITE_NO_WAIT) && dp_waits_worst(e->stuck, sizeof e->stuck, &e->stuck_ns);
}

static void mutex_summary(unsigned locks, const struct dp_rows *rows, char *text, size_t n_bytes)
{
    dp_title_sum(&mutex_rules, "releases made others wait", locks, rows, text, n_bytes);
}

static void chain_summary(unsigned locks, const struct dp_rows *rows, char *text, size_t n_bytes)
{
    dp_title_sum(&chain_rules, "waits for a release", locks, rows, text, n_bytes);
}

static void block_summary(unsigned locks, const struct dp_rows *rows, char *text, size_t n_bytes)
{
    dp_title_sum(&block_rules, "waits", locks, rows, text, n_bytes);
}

static dp_frame_id leaf(const struct dp_record *record, unsigned *n_inside)
{
    *n_inside = dp_lock_frames_inside(record);
    return dp_lock_frame_called(record);
}

static size_t text_header(const struct dp_rows *rows, char *text, size_t n_bytes)
{
    (void)rows;
    return dp_text_format(text, n_bytes, "--- contention:\ncycles/second=1000000000\nsampling period=1\n");
}

static size_t text_row(const int64_t *values, char *text, size_t n_bytes)
{
    return dp_text_format(text, n_bytes, "%lld %lld @", (long long)values[1], (long long)values[0]);
}

#define FUNCTIONS \
    .scan = dp_lock_rows_scan, .text_header = text_header, .text_row = text_row, .text_end = "\n--- Memory map: ---\n"

const struct dp_kind_source dp_mutex_source = {
    .rules = &mutex_rules, .summary = mutex_summary, .leaf = leaf, FUNCTIONS};
const struct dp_kind_source dp_block_source = {

    .rules = &block_rules, .prepare = block_prepare, .summary = block_summary, .leaf = leaf, FUNCTIONS};
const struct dp_kind_source dp_chain_source = {
    .rules = &chain_rules, .summary = chain_summary, .tower = dp_chain_tower, FUNCTIONS};
