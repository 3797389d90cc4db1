/* SPDX-License-Identifier: MIT */
/*
 * host/table/event_ring.c - a ring of slots. Hooks take numbers from `head` and fill the slot of their number; the tick
 * reads from `tail` on, and drops what it has delivered.
 *
 *     slot      free --number taken (CAS on head)--> being filled --stamp = number + 1 [EVENT]--> there --drop--> free
 *
 * 1. A slot is written by the thread that took its number, and by no other until the tail has passed it: a number is
 *    taken only if it is less than a whole ring above the tail.
 * 2. [EVENT] The stamp is stored with release after the fields, and loaded with acquire: else a reader could take the
 *    fields of the event that lay there before.
 * 3. [TAIL] drop moves the tail with release, and a writer loads it with acquire: else the writer could fill the slot
 *    while the reader still reads the old event.
 * 4. A full ring loses the newest events, and counts them. A writer tries TRIES times to take a number, so that it ends
 *    whatever other threads do.
 * 5. An event of a thread with a trace context takes two numbers at once. The second slot has the trace, and is filled
 *    first, so that the stamp of the first slot covers both.
 * 6. A thread that is stopped while it fills its slot holds the reader back there until the next tick. No thread waits.
 */
#include "host/table/event_ring.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/stats.h"
#include "host/table/trace_context.h"
#include "host/thread/thread.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TRIES = 64 };

enum { TRACED = 1u << 31 }; /* in `kind`: the trace is in the next slot */

struct slot {
    union {
        struct {
            int64_t time_ns, duration_ns, n, value;
        };
        uint64_t trace[3];
    };
    dp_record_id record;
    int32_t tid;
    uint32_t kind;
    _Atomic uint32_t stamp; /* low half of the event's number + 1 */
};
_Static_assert(sizeof(struct slot) == 48, "three events in two cache lines");

_Atomic bool dp_events_on;

static struct slot *slots;
static uint64_t n_slots; /* a power of two; set before dp_events_on */
static _Alignas(64) _Atomic uint64_t head;
static _Alignas(64) _Atomic uint64_t tail;

int dp_events_tune(bool on, size_t budget_bytes)
{
    uint64_t n = 1024;
    if (on && !slots) {
        while (2 * n * sizeof *slots <= budget_bytes)
            n *= 2;
        slots = dp_mem_map(n * sizeof *slots);
        n_slots = n;
    }
    dp_store_release(&dp_events_on, on && slots); /* [RING] a hook that sees it also sees the ring */
    return on && !slots ? -ENOMEM : 0;
}

DP_IN_CHILD void dp_events_fork_child(void)
{
    dp_thread_self()->tid = 0;
    dp_store_relaxed(&head, 0);
    dp_store_relaxed(&tail, 0);
    if (slots)
        madvise(slots, n_slots * sizeof *slots, MADV_DONTNEED);
}

/* Word by word: the thread sanitizer does not see a memcpy that the compiler expands. */
static void copy_trace(uint64_t to[3], const uint64_t from[3])
{
    for (int i = 0; i < 3; i++)
        to[i] = from[i];
}

static int32_t thread_id(void)
{
    struct dp_thread *self = dp_thread_self();
    if (!self->tid)
        self->tid = (int32_t)syscall(SYS_gettid);
    return self->tid;
}

/* trace: the thread's, or NULL. */
static void add_event(int32_t tid, unsigned kind, dp_record_id record, int64_t n, int64_t value, int64_t end_ns,
                      int64_t duration_ns, const uint64_t *trace)
{
    uint64_t number = dp_load_relaxed(&head), n_more = trace ? 1 : 0;
    int tries = TRIES;
    do {
        if (number + n_more - dp_load_acquire(&tail) >= n_slots || !tries--) { /* [TAIL] */
            dp_stats_add(DP_STAT_EVENTS_LOST, 1);
            return;
        }
    } while (!dp_cas_relaxed(&head, &number, number + 1 + n_more));
    if (n_more)
        copy_trace(slots[(number + 1) & (n_slots - 1)].trace, trace);
    struct slot *slot = &slots[number & (n_slots - 1)];
    slot->time_ns = end_ns ? end_ns : dp_clock_ns();
    slot->duration_ns = duration_ns;
    slot->n = n;
    slot->value = value;
    slot->record = record;
    slot->tid = tid;
    slot->kind = kind | (n_more ? TRACED : 0);
    dp_store_release(&slot->stamp, (uint32_t)number + 1); /* [EVENT] */
}

void dp_events_add_slow(unsigned kind, dp_record_id record, int64_t n, int64_t value, int64_t end_ns,
                        int64_t duration_ns)
{
    if (!dp_load_acquire(&dp_events_on)) /* [RING] */
        return;
    uint64_t trace[DP_TRACE_WORDS];
    bool is_traced = dp_trace_context_read(trace);
    add_event(thread_id(), kind, record, n, value, end_ns, duration_ns, is_traced ? trace : NULL);
}

void dp_events_add_of(int32_t tid, unsigned kind, dp_record_id record, int64_t n, int64_t value, int64_t end_ns,
                      int64_t duration_ns)
{
    if (dp_load_acquire(&dp_events_on)) /* [RING] */
        add_event(tid, kind, record, n, value, end_ns, duration_ns, NULL);
}

/* ---- for reports ---- */

void dp_events_range(uint64_t *first, uint64_t *end)
{
    *first = dp_load_relaxed(&tail);
    *end = dp_load_relaxed(&head);
}

unsigned dp_events_read(uint64_t number, struct dp_timed_event *event)
{
    const struct slot *slot = &slots[number & (n_slots - 1)];
    if (dp_load_acquire(&slot->stamp) != (uint32_t)number + 1) /* [EVENT] */
        return 0;
    *event = (struct dp_timed_event){.time_ns = slot->time_ns,
                                     .duration_ns = slot->duration_ns,
                                     .n = slot->n,
                                     .value = slot->value,
                                     .record = slot->record,
                                     .tid = slot->tid,
                                     .kind = slot->kind & ~TRACED,
                                     .is_traced = slot->kind & TRACED};
    if (event->is_traced)
        copy_trace(event->trace, slots[(number + 1) & (n_slots - 1)].trace);
    return event->is_traced ? 2 : 1;
}

void dp_events_drop(uint64_t end)
{
    dp_store_release(&tail, end); /* [TAIL] */
}
