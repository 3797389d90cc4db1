/* SPDX-License-Identifier: MIT */
/*
 * host/agent/peaks.c - sets the threshold at which the sampled path of an allocation (host/heap/peak.h) wakes the
 * background thread.
 *
 * A tick for a peak comes EVERY_NS after the thread began or its last tick did, at the earliest, and so long after that
 * tick that such ticks take one part in SHARE of the time. What was in use at a peak before that is copied
 * (host/heap/peak.h), so a peak is late and not lost: a program of a second or two, as a compiler, writes its profiles
 * once, at its end. The least growth is LEAST_BYTES, or as much as LEAST_SAMPLES samples stand for: below it is noise.
 * All state is relaxed: a wake-up that comes late or twice does no harm.
 */
#include "host/agent/peaks.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "host/cpu/timers.h"
#include "host/heap/heap.h"
#include "host/heap/peak.h"
#include "host/agent/tick.h"

enum { EVERY_NS = 1000000000, SHARE = 200, LEAST_BYTES = 1 << 20, LEAST_SAMPLES = 8 };

#define HANG_NS (60 * INT64_C(1000000000))

static struct dp_log_cause hang;
static _Atomic bool reached;
static _Atomic int64_t inherited_bytes; /* in use at the fork */
static _Atomic int64_t next_ns;         /* no tick for a peak comes before that */
static void (*_Atomic wake_thread)(void);

static void note_peak(void)
{
    void (*wake)(void) = dp_load_relaxed(&wake_thread);
    dp_store_relaxed(&reached, true);
    wake();
}

void dp_agent_peaks_watch(bool wanted, void (*wake)(void))
{
    int64_t base = dp_load_relaxed(&inherited_bytes), highest = dp_agent_tick_highest();
    int64_t least = dp_heap_rate() * LEAST_SAMPLES;
    base = highest > base ? highest : base;
    least = least > LEAST_BYTES ? least : LEAST_BYTES;
    dp_store_relaxed(&wake_thread, wake);
    wanted = wanted && base < INT64_MAX / 2;
    dp_heap_peak_watch(wanted ? base + (base / 10 > least ? base / 10 : least) : INT64_MAX, note_peak);
}

int64_t dp_agent_peaks_due_ns(void)
{
    return dp_load_relaxed(&reached) ? dp_load_relaxed(&next_ns) : INT64_MAX;
}

void dp_agent_peaks_begin_tick(void)
{
    dp_store_relaxed(&next_ns, dp_clock_ns() + EVERY_NS);
    dp_store_relaxed(&reached, false);
}

/* While the file system of `out` hangs, this thread can say nothing; if it hangs until the end, the exit says it. */
static void say_hang(int64_t took_ns)
{
    if (took_ns >= HANG_NS)
        dp_log_once(&hang, 1, "a write of profiles in %s took %d s: its file system hangs, or the process was stopped",
                    dp_agent_tick_directory(), (int)(took_ns / 1000000000));
}

void dp_agent_peaks_tick(void)
{
    int64_t begin_ns = dp_cpu_own_clock_ns(), from_ns = dp_clock_ns();
    dp_agent_tick(INT64_MAX);
    int64_t now_ns = dp_clock_ns(), next = now_ns + (dp_cpu_own_clock_ns() - begin_ns) * SHARE;
    say_hang(now_ns - from_ns);
    if (next > dp_load_relaxed(&next_ns))
        dp_store_relaxed(&next_ns, next);
}

DP_IN_CHILD void dp_agent_peaks_fork_child(void)
{
    dp_store_relaxed(&reached, false);
    dp_store_relaxed(&inherited_bytes, dp_heap_peak_in_use());
    dp_store_relaxed(&next_ns, 0);
    dp_heap_peak_watch(INT64_MAX, note_peak);
}
