/* SPDX-License-Identifier: MIT */
/*
 * host/locks/lock_source.c - reports of the mutex and the block profile: futexes as the locks that they are part of,
 * pairs of waiters and holders. A row is {contentions, delay}.
 */
#include "base/text.h"
#include "host/locks/pair_rows.h"
#include "host/locks/title.h"
#include "host/locks/futex_class.h"
#include "host/table/labels.h"
#include "host/locks/wait.h"
#include "host/report/consumer.h"
#include "host/report/kind_source.h"
#include "host/locks/lock_names.h"
#include "host/locks/lock_rows.h"
#include "host/locks/pair_comments.h"

_Static_assert(sizeof(struct dp_pairs_baseline) <= sizeof(struct dp_kind_state) &&
                   sizeof(struct dp_pair_rows) <= sizeof(struct dp_kind_state),
               "the state of a consumer has room");

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

static const struct dp_delta_rules mutex_rules = {
    .kind = DP_KIND_MUTEX, .is_filtered = is_filtered, .lock_of = mutex_lock_of};
static const struct dp_delta_rules block_rules = {
    .kind = DP_KIND_BLOCK, .prepare = dp_wait_count_under_way, .is_filtered = is_filtered, .lock_of = block_lock_of};

/* ---- pairs ------------------------------------------------------------------------------------------------------ */

static struct dp_pair_rows *pairs_of(struct dp_kind_state *more)
{
    return (struct dp_pair_rows *)(void *)more->bytes;
}

static const struct dp_pair_rows *written_of(const struct dp_kind_state *more)
{
    return (const struct dp_pair_rows *)(const void *)more->bytes;
}

static struct dp_pairs_baseline *delivered_of(struct dp_kind_state *delivered)
{
    return (struct dp_pairs_baseline *)(void *)delivered->bytes;
}

static void add_more(struct dp_consumer *c, bool cumulative)
{
    struct dp_pair_rows *pairs = pairs_of(&c->more);
    if (dp_pairs_scan(cumulative ? NULL : delivered_of(&c->delivered), pairs))
        dp_vec_clear(pairs); /* they come with a later profile */
}

static int skip(struct dp_consumer *c)
{
    return dp_pairs_scan(delivered_of(&c->delivered), pairs_of(&c->more));
}

static void commit(struct dp_kind_state *delivered, const struct dp_kind_state *more)
{
    dp_pairs_commit(delivered_of(delivered), written_of(more));
}

static void restart(struct dp_kind_state *delivered)
{
    dp_vec_clear(delivered_of(delivered));
}

static void free_more(struct dp_kind_state *more)
{
    dp_vec_fini(pairs_of(more));
}

static void free_delivered(struct dp_kind_state *delivered)
{
    dp_vec_fini(delivered_of(delivered));
}

static void comments(const struct dp_kind_state *more, unsigned locks, struct dp_locations *l, struct dp_encode *encode)
{
    dp_pairs_write(written_of(more), locks, l, encode);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static void mutex_summary(unsigned locks, const struct dp_rows *rows, char *text, size_t n_bytes)
{
    dp_title_sum(&mutex_rules, "releases made others wait", locks, rows, text, n_bytes);
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

#define FUNCTIONS                                                                                        \
    .scan = dp_lock_rows_scan, .add_more = add_more, .skip = skip, .commit = commit, .restart = restart, \
    .free_more = free_more, .free_delivered = free_delivered, .comments = comments, .leaf = leaf,        \
    .text_header = text_header, .text_row = text_row, .text_end = "\n--- Memory map: ---\n"

const struct dp_kind_source dp_mutex_source = {.rules = &mutex_rules, .summary = mutex_summary, FUNCTIONS};
const struct dp_kind_source dp_block_source = {.rules = &block_rules, .summary = block_summary, FUNCTIONS};
