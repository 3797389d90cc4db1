/* SPDX-License-Identifier: MIT */
/*
 * host/report/recorded.c - see recorded.h.
 *
 * One number for each kind, so that a reader never sees half of a change:
 *
 *     not negative   the kind is recorded; the number is the time in which it was not
 *     negative       it has not been recorded since T; the number is that time until T, minus T
 *
 * T is of CLOCK_MONOTONIC and greater than any time off, so both forms can be told apart, and the time off until now is
 * the number, or the number plus now. All accesses are relaxed: nothing else is read with them.
 */
#include "host/report/recorded.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/process.h"
#include "host/shared/table_file.h"
#include "profile/kinds.h"

#include <stdbool.h>

static struct {
    _Atomic int64_t off[DP_KIND_TABLES];
    _Atomic int32_t n_windows[DP_KIND_TABLES];
    _Atomic uint32_t not_wanted; /* kinds, a bit for each */
} recorded;

/* Makes the number what it should be. Of two threads that change it, the last one sees both changes. */
static void update(unsigned kind)
{
    int64_t off = dp_load_relaxed(&recorded.off[kind]);
    bool is_wanted, is_recorded = off >= 0;
    while ((is_wanted = !(dp_load_relaxed(&recorded.not_wanted) >> kind & 1) ||
                        dp_load_relaxed(&recorded.n_windows[kind]) > 0) != is_recorded) {
        int64_t now_ns = dp_clock_ns();
        dp_cas_relaxed(&recorded.off[kind], &off, is_recorded ? off - now_ns : off + now_ns);
        off = dp_load_relaxed(&recorded.off[kind]);
        is_recorded = off >= 0;
    }
    dp_shared_file_set_off(kind, off);
}

void dp_report_recorded_tune(uint32_t kinds)
{
    dp_store_relaxed(&recorded.not_wanted, ~kinds);
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        update(kind);
}

void dp_report_recorded_window(unsigned kind, int by)
{
    if (kind >= DP_KIND_TABLES)
        return;
    dp_add_relaxed(&recorded.n_windows[kind], by);
    update(kind);
}

int64_t dp_report_recorded_off_ns(unsigned kind, int64_t mono_ns)
{
    int64_t off = kind < DP_KIND_TABLES ? dp_load_relaxed(&recorded.off[kind]) : 0;
    return off < 0 ? off + mono_ns : off;
}

void dp_report_recorded_adopt(unsigned kind, int64_t off)
{
    dp_store_relaxed(&recorded.off[kind], off);
}

DP_IN_CHILD void dp_report_recorded_fork_child(int64_t now_ns)
{
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++) {
        bool is_recorded = dp_load_relaxed(&recorded.off[kind]) >= 0;
        dp_store_relaxed(&recorded.n_windows[kind], 0);
        dp_store_relaxed(&recorded.off[kind], is_recorded ? 0 : -now_ns);
    }
}
