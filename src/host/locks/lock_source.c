/* SPDX-License-Identifier: MIT */
/*
 * host/locks/lock_source.c - reports of the kinds mutex, block and chain: futexes as the locks that they are part of. A
 * row is {contentions, delay}. Without stdio, as all of a profile: it may be written in a crash handler.
 */
#include "base/text.h"
#include "host/locks/alarm.h"
#include "host/locks/chain.h"
#include "host/locks/closed.h"
#include "host/locks/futex_class.h"
#include "host/locks/lock_seen.h"
#include "host/table/labels.h"
#include "host/locks/wait.h"
#include "host/locks/wait_event.h"
#include "host/locks/waiting.h"
#include "host/report/data_place.h"
#include "host/report/emit.h"
#include "host/report/kind_source.h"
#include "host/report/profile.h"
#include "host/report/table_source.h"
#include "host/locks/lock_names.h"
#include "host/locks/lock_rows.h"
#include "profile/lock_kinds.h"

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

/* ---- one line of a profile -------------------------------------------------------------------------------------- */

struct sum {
    const char *name;
    int64_t n, ns;
};

static size_t add_names(unsigned locks, char *text, size_t n_bytes)
{
    size_t at = dp_text_format(text, n_bytes, "only ");
    for (unsigned kind = 1, n = 0; kind < DP_LABELS_LOCKS; kind++)
        if (locks >> kind & 1)
            at += dp_text_format(text + at, n_bytes - at, "%s%s", n++ ? "," : "lock=", dp_lock_kind_name(kind));
    return at + dp_text_format(text + at, n_bytes - at, ": ");
}

static size_t add_time(int64_t ns, char *text, size_t n_bytes)
{
    return dp_text_format(text, n_bytes, "%lld.%03u s", (long long)(ns / 1000000000),
                          (unsigned)(ns % 1000000000 / 1000000));
}

/* Takes the sum with the longest time out of the set; NULL: none is left. */
static struct sum *take_longest(struct sum *sums)
{
    struct sum *longest = NULL;
    for (unsigned kind = 0; kind < DP_LABELS_LOCKS; kind++)
        if (sums[kind].name && (!longest || sums[kind].ns > longest->ns))
            longest = &sums[kind];
    return longest;
}

/*
 * Sums the rows up in one line for people, for example "12 waits, 4.213 s: cond 3.000 s in 2, mutex 1.213 s in 10".
 * unit: what the contentions of this kind are. locks: the filter of the rows, which is named; 0: none.
 */
static void sum_up(const struct dp_delta_rules *rules, const char *unit, unsigned locks, const struct dp_rows *rows,
                   char *text, size_t n_bytes)
{
    struct sum all = {0}, sums[DP_LABELS_LOCKS] = {0}, *next;
    text[0] = '\0';
    for (size_t i = 0; i < rows->n; i++) {
        const int64_t *values = rows->at[i].values;
        bool shown;
        unsigned lock = rules->lock_of(dp_table_record(rules->kind, rows->at[i].id), &shown);
        const char *name = dp_lock_kind_name(lock);
        sums[lock].name = name ? name : "[overflow]";
        sums[lock].n += values[0];
        sums[lock].ns += values[1];
        all.n += values[0];
        all.ns += values[1];
    }
    size_t at = locks ? add_names(locks, text, n_bytes) : 0;
    at += dp_text_format(text + at, n_bytes - at, "%lld %s, ", (long long)all.n, unit);
    at += add_time(all.ns, text + at, n_bytes - at);
    for (const char *before = ": "; (next = take_longest(sums)); before = ", ") {
        at += dp_text_format(text + at, n_bytes - at, "%s%s ", before, next->name);
        at += add_time(next->ns, text + at, n_bytes - at);
        at += dp_text_format(text + at, n_bytes - at, " in %lld", (long long)next->n);
        next->name = NULL;
    }
}

static void block_prepare(const struct dp_consumer *c, unsigned flags, struct dp_emission *e)
{
    (void)c;
    e->has_stuck = !(flags & DP_WRITE_NO_WAIT) && dp_waits_worst(e->stuck, sizeof e->stuck, &e->stuck_ns);
}

/* Of waits that no hook sees: of a process with one thread, or at pipes. */
static bool block_is_stuck(void)
{
    struct dp_waits none = {0};
    struct dp_closed closed = {.since_ns = 0};
    bool is_stuck = dp_load_relaxed(&dp_wait_rates.block_ns) && dp_closed_find(&none, &closed);
    dp_closed_fini(&closed);
    return is_stuck;
}

static void mutex_summary(unsigned locks, const struct dp_rows *rows, char *text, size_t n_bytes)
{
    sum_up(&mutex_rules, "releases made others wait", locks, rows, text, n_bytes);
}

static void chain_summary(unsigned locks, const struct dp_rows *rows, char *text, size_t n_bytes)
{
    sum_up(&chain_rules, "waits for a release", locks, rows, text, n_bytes);
}

static void block_summary(unsigned locks, const struct dp_rows *rows, char *text, size_t n_bytes)
{
    sum_up(&block_rules, "waits", locks, rows, text, n_bytes);
}

/* ---- stacks ----------------------------------------------------------------------------------------------------- */

_Static_assert(DP_EMIT_STACK_MAX >= 2 * (DP_STACK_MAX + 1) + 1, "two stacks, both cut, and [held by]");

static void reverse(dp_frame_id *frames, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        dp_frame_id frame = frames[i];
        frames[i] = frames[n - 1 - i];
        frames[n - 1 - i] = frame;
    }
}

/*
 * The stack of a chain as a profile shows it, one tower of waiter and holder:
 *
 *     root of the waiter > ... > where it waits > [held by] > the holder's unlock > ... > root of the holder
 *     root of the waiter > ... > where it waits > [hand-over]
 */
static size_t tower(const struct dp_record *record, dp_frame_id *frames, size_t *n_holder)
{
    struct dp_chain chain;
    if (!dp_chain_of(record, &chain)) {
        frames[0] = DP_FRAME_OVERFLOW;
        *n_holder = 0;
        return 1;
    }
    size_t n = dp_report_table_shown(DP_KIND_MUTEX, dp_table_record(DP_KIND_MUTEX, chain.holder), frames);
    reverse(frames, n);
    *n_holder = n;
    if (frames[0] != DP_FRAME_HAND_OVER)
        frames[n++] = DP_FRAME_HELD_BY;
    if (chain.waiter == DP_CHAIN_UNKNOWN)
        frames[n++] = DP_FRAME_UNKNOWN_WAITER;
    else
        n += dp_report_table_shown(DP_KIND_BLOCK, dp_table_record(DP_KIND_BLOCK, chain.waiter), frames + n);
    return n;
}

static dp_frame_id leaf(const struct dp_record *record, unsigned *n_inside)
{
    *n_inside = dp_lock_frames_inside(record);
    return dp_lock_frame_called(record);
}

/* ---- where the lock is ------------------------------------------------------------------------------------------ */

static int64_t seen_in(unsigned kind, dp_record_id id)
{
    return dp_load_acquire(dp_table_word(kind, id)); /* [SEEN] */
}

static size_t place_of(int64_t word, const struct dp_location_settings *how, char *text, size_t n_bytes)
{
    dp_frame_id frame = dp_lock_seen_frame(word);
    size_t before = 0, n = 0;
    if (word & DP_LOCK_SEEN_OTHERS)
        before = dp_text_format(text, n_bytes, "several locks, the longest wait for %s", frame ? "" : "one ");
    if (word)
        n = dp_report_data_place(dp_lock_seen_address(word), frame, how, text + before, n_bytes - before);
    return n ? before + n : 0;
}

static size_t mutex_lock_at(dp_record_id id, const struct dp_location_settings *how, char *text, size_t n_bytes)
{
    return place_of(seen_in(DP_KIND_MUTEX, id), how, text, n_bytes);
}

static size_t block_lock_at(dp_record_id id, const struct dp_location_settings *how, char *text, size_t n_bytes)
{
    return place_of(seen_in(DP_KIND_BLOCK, id), how, text, n_bytes);
}

/*
 * The lock is that of both stacks. The one of them that has always been for one lock tells it for certain. A holder may
 * be [hand-over], which is no stack and has no lock.
 */
static size_t chain_lock_at(dp_record_id id, const struct dp_location_settings *how, char *text, size_t n_bytes)
{
    struct dp_chain chain;
    if (!dp_chain_of(dp_table_record(DP_KIND_CHAIN, id), &chain))
        return 0;
    int64_t held = seen_in(DP_KIND_MUTEX, chain.holder),
            waited = chain.waiter == DP_CHAIN_UNKNOWN ? 0 : seen_in(DP_KIND_BLOCK, chain.waiter);
    bool is_held = !waited || (held && (!(held & DP_LOCK_SEEN_OTHERS) || waited & DP_LOCK_SEEN_OTHERS));
    return place_of(is_held ? held : waited, how, text, n_bytes);
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
    .rules = &mutex_rules, .lock_at = mutex_lock_at, .summary = mutex_summary, .leaf = leaf, FUNCTIONS};
const struct dp_kind_source dp_block_source = {.rules = &block_rules,
                                               .adoption = {.is_named = dp_waiting_is_named},
                                               .is_stuck = block_is_stuck,
                                               .prepare = block_prepare,
                                               .lock_at = block_lock_at,
                                               .summary = block_summary,
                                               .leaf = leaf,
                                               FUNCTIONS};
const struct dp_kind_source dp_chain_source = {.rules = &chain_rules,
                                               .adoption = {.has_valid_ids = dp_chain_has_valid_ids},
                                               .lock_at = chain_lock_at,
                                               .summary = chain_summary,
                                               .tower = tower,
                                               FUNCTIONS};
