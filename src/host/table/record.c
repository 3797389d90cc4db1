/* SPDX-License-Identifier: MIT */
/*
 * host/table/record.c - the record store: adds events of every kind to records, and keeps the zero of a forked child.
 *
 * The zero. In a forked child the counters keep their values, so that frees of inherited blocks have a value to
 * subtract from. The child's consumers subtract its zero: a copy of (n, v) made before its first own event is added.
 * `zero` goes OWN -> (fork) -> WANTED -> COPYING -> OWN. The copy is made by the first event or report, not by the fork
 * handler, because most children exec. Events of other threads during the copy could fall on either side of it, so they
 * wait: they yield, at most FORK_YIELDS times (the copying thread may be preempted for long), and are then not
 * recorded, but counted as FORK_RACES. Frees do not wait, they are not part of the zero. [ZERO]: the copy is published
 * with release; else a report could subtract an incomplete copy.
 *
 * With files of tables (host/shared) the counters are the parent's until the zero is copied to a file of the child, so
 * there frees pass the gate too, and so does the first event of the first process.
 */
#include "host/table/record.h"

#include "base/mem.h"
#include "base/process.h"
#include "host/shared/table_file.h"

#include <sched.h>

enum { FORK_YIELDS = 10000 };

static void (*at_zero)(void); /* published by ready */

/* The words of dp_shared_own as they were: there they are 0 in a forked child until its handler has run. */
static struct {
    uint32_t ready, epoch;
    bool marked;
} kept;

/* The gate of dp_shared_may_write. */
static bool open_gate(bool waits)
{
    return dp_record_is_ready() && (dp_record_fork_copy_zero() || (waits && dp_record_fork_wait())) &&
           dp_record_is_ready();
}

static void close_gate(void)
{
    dp_store_relaxed(&dp_shared_own.is_open, 0);
    dp_store_relaxed(&dp_shared_own.zero, DP_ZERO_WANTED);
}

void dp_record_open(void (*fn)(void))
{
    at_zero = fn;
    kept.ready = 1;
    dp_store_relaxed(&dp_shared_own.plain, !kept.marked);
    dp_store_relaxed(&dp_shared_own.is_open, 1);
    if (dp_shared_file_is_wanted())
        close_gate();
    dp_store_relaxed(&dp_shared_gate_opener, open_gate);
    dp_store_release(&dp_shared_own.ready, 1); /* [READY] */
}

bool dp_record_fork_copy_zero_slow(void)
{
    uint32_t state = DP_ZERO_WANTED;
    if (!dp_cas_acquire(&dp_shared_own.zero, &state, DP_ZERO_COPYING))
        return dp_load_acquire(&dp_shared_own.zero) == DP_ZERO_OWN; /* [ZERO] */
    if (dp_shared_file_is_wanted() && !dp_table_make_file(kept.epoch)) {
        kept.ready = 0;
        dp_store_relaxed(&dp_shared_own.ready, 0); /* for ever: state stays COPYING */
        return false;
    }
    if (kept.epoch) {
        dp_shared_file_mark_child(kept.epoch);
        dp_table_set_base();
        if (at_zero) /* else nothing was ever recorded */
            at_zero();
    }
    dp_store_release(&dp_shared_own.is_open, 1);        /* [ZERO] */
    dp_store_release(&dp_shared_own.zero, DP_ZERO_OWN); /* [ZERO] */
    return true;
}

bool dp_record_fork_wait(void)
{
    for (int i = 0; i < FORK_YIELDS; i++) {
        sched_yield();
        if (dp_record_fork_copy_zero())
            return true;
    }
    dp_stats_add(DP_STAT_FORK_RACES, 1);
    return false;
}

void dp_record_mark(void)
{
    kept.marked = true;
    dp_store_relaxed(&dp_shared_own.plain, 0);
}

bool dp_record_may_free(void)
{
    return dp_shared_may_write();
}

DP_IN_CHILD uint32_t dp_record_fork_begin(void)
{
    uint32_t epoch = ++kept.epoch;
    kept.marked = true;
    dp_store_relaxed(&dp_shared_own.epoch, epoch);
    dp_store_relaxed(&dp_shared_own.plain, 0);
    dp_store_relaxed(&dp_shared_own.zero, DP_ZERO_WANTED);
    dp_store_relaxed(&dp_shared_own.is_open, !dp_shared_file_is_wanted() && !dp_shared_file_has_mark());
    dp_store_relaxed(&dp_shared_own.ready, kept.ready);
    dp_shared_file_fork_child();
    return epoch;
}

void dp_record_fork_base(unsigned kind, dp_record_id id, int64_t *n, int64_t *v)
{
    struct dp_table_base base = {0, 0};
    if (dp_record_epoch())
        dp_table_base(kind, id, &base);
    *n = base.n;
    *v = base.v;
}

void dp_record_stats(struct deltaprof_stats *stats)
{
    stats->samples = dp_stats_read(DP_STAT_SAMPLES);
    stats->records = 0;
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        stats->records += dp_table_count(kind) > 1 ? dp_table_count(kind) - 1 : 0;
    stats->live = (uint64_t)dp_tally_read(DP_TALLY_LIVE);
    stats->memory_bytes = dp_mem_used();
    stats->overflow = dp_stats_read(DP_STAT_OVERFLOW);
    stats->live_full = dp_stats_read(DP_STAT_LIVE_FULL);
    stats->stacks_cut = dp_stats_read(DP_STAT_STACKS_CUT);
    stats->stacks_deep = dp_stats_read(DP_STAT_STACKS_DEEP);
    stats->stacks_none = dp_stats_read(DP_STAT_STACKS_NONE) + dp_stats_read(DP_STAT_STACKS_BUSY);
    stats->locks_full = dp_stats_read(DP_STAT_LOCKS_FULL);
    stats->frames_apart = dp_stats_read(DP_STAT_FRAMES_APART);
    stats->frames_full = dp_stats_read(DP_STAT_FRAMES_FULL);
}

void dp_record_adopt(uint32_t epoch)
{
    kept.epoch = epoch;
    dp_store_relaxed(&dp_shared_own.epoch, epoch);
}
