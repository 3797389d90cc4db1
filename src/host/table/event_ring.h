/* SPDX-License-Identifier: MIT */
/*
 * host/table/event_ring.h - the events themselves, each with its time and thread: a ring that hooks fill and the tick
 * empties.
 *
 * Off, an event costs one load on the sampled path and nothing on the others.
 */
#pragma once

#include "base/atomic.h"
#include "host/table/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One event, in the weight that its record counts it with. With a trace it takes two places of the ring. */
struct dp_timed_event {
    int64_t time_ns;     /* when it ended (dp_clock_ns) */
    int64_t duration_ns; /* of a wait, or of the waits that an unlock ended; heap: 0 */
    int64_t n;           /* objects or contentions */
    int64_t value;       /* bytes or delay */
    dp_record_id record; /* of its kind; never changes its meaning */
    int32_t tid;
    uint32_t kind;     /* DP_KIND_* */
    bool is_traced;    /* whether the thread had a trace context */
    uint64_t trace[3]; /* its bytes: 16 of the trace id, 8 of the span id */
};

extern _Atomic bool dp_events_on DP_INTERNAL;

/* on: maps the ring within budget_bytes, once. -ENOMEM: no events. Off: what the ring holds stays. Context: init. */
int dp_events_tune(bool on, size_t budget_bytes);

/* Adds an event. end_ns 0: it ends now. If the ring is full it is lost, and counted. Context: hook. */
void dp_events_add_slow(unsigned kind, dp_record_id record, int64_t n, int64_t value, int64_t end_ns,
                        int64_t duration_ns);
static inline void dp_events_add(unsigned kind, dp_record_id record, int64_t n, int64_t value, int64_t end_ns,
                                 int64_t duration_ns)
{
    if (__builtin_expect(dp_load_relaxed(&dp_events_on), 0))
        dp_events_add_slow(kind, record, n, value, end_ns, duration_ns);
}

/* The same for an event of another thread, which has no trace. Context: a report. */
void dp_events_add_of(int32_t tid, unsigned kind, dp_record_id record, int64_t n, int64_t value, int64_t end_ns,
                      int64_t duration_ns);

/* In a forked child: empties the ring. Only stores and madvise. */
void dp_events_fork_child(void);

/* ---- for reports, one at a time ---- */

/* The events now in the ring: numbers from `first` on, below `end`. */
void dp_events_range(uint64_t *first, uint64_t *end);

/* Reads event `number` of the range. Returns how far the next one is; 0: its thread is still writing this one. */
unsigned dp_events_read(uint64_t number, struct dp_timed_event *event);

/* Drops the events below `end`. */
void dp_events_drop(uint64_t end);
