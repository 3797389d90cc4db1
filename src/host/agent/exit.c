/* SPDX-License-Identifier: MIT */
/*
 * host/agent/exit.c - delivers the last profiles when the process ends. exit, _exit, quick_exit and signals all come
 * here, in any order, from any thread, perhaps nested.
 *
 * A program's exit handlers and destructors free memory. After them, a leak cannot be distinguished from memory that
 * was in use until then. So the end of a process has two ticks: one before the handlers
 * (dp_agent_exit_before_handlers), with the comment #exit, and one after them.
 *
 * Other threads of the program may allocate while the last tick is written, and after it. The file of tables then
 * stays, and the next command that reads it writes the rest to a profile. Without such a file, the line at exit counts
 * these samples.
 *
 * If there is an agent, the caller only wakes it and waits. If not, the caller writes the profiles: with try-locks and
 * open modules only, because it may be a crash handler. Only plain exit may open modules first, so that profiles of
 * short programs have names, and only if this thread is not inside an allocator (its countdown is not guarded).
 */
#include "host/agent/exit.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/stats.h"
#include "base/text.h"
#include "host/heap/heap.h"
#include "host/shared/table_file.h"
#include "host/agent/agent.h"
#include "host/agent/summary.h"
#include "host/agent/tick.h"
#include "host/thread/thread.h"

#include <deltaprof/thread.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NOT_YET, UNDER_WAY, OVER };
enum { SHORT_LIVED_NS = 1000000000 };

static struct {
    _Atomic uint32_t state;
    _Atomic int32_t by;       /* the delivering thread; a thread only compares it with itself */
    _Atomic int32_t first;    /* thread that called exit first; 0: none did */
    _Atomic bool begun, late; /* late: exit_timeout was used up before the handlers ran */
    _Atomic bool armed, speaks;
    _Atomic bool crashed; /* relaxed: the crash handler stores it for its own thread */
    _Atomic int64_t timeout_ns;
    _Atomic int64_t forked_ns; /* when this process was forked from a profiled one; 0: it was not */
    _Atomic int later; /* a signal that came to the thread that delivers; 0: none. relaxed: only that thread uses it */
} process_exit;

void dp_agent_exit_init(const struct dp_config *conf, bool speaks)
{
    dp_store_relaxed(&process_exit.timeout_ns, conf->exit_timeout_ns);
    dp_store_relaxed(&process_exit.speaks, speaks);
    dp_agent_summary_init();
    dp_store_relaxed(&process_exit.armed, true);
}

void dp_agent_exit_forbid(void)
{
    dp_store_relaxed(&process_exit.armed, false);
}

int64_t dp_agent_exit_deadline(void)
{
    return dp_clock_ns() + dp_load_relaxed(&process_exit.timeout_ns);
}

/* Says why: to the user if `aloud`, and in the directory, where profiles are expected. */
static void say_no_sample(bool aloud)
{
    char text[160] = "no allocation was seen: the program may contain its own malloc, or it allocates nothing";
    int64_t rate = dp_heap_rate(), seen = (int64_t)dp_heap_bytes_seen(), better = 1;
    char seen_text[32], rate_text[32], better_text[32];
    while (better * 128 <= seen)
        better *= 2; /* aims at about a hundred samples */
    dp_text_size(rate_text, sizeof rate_text, rate);
    dp_text_size(better_text, sizeof better_text, better < rate || !rate ? better : 1);
    dp_text_size(seen_text, sizeof seen_text, seen >= 10240 ? seen & ~INT64_C(1023) : seen);
    if (seen)
        dp_text_format(text, sizeof text,
                       "no sample: %s bytes were allocated with heap_rate=%s; use heap_rate=%s to sample them",
                       seen_text, rate_text, better_text);
    if (aloud)
        dp_log(DP_LOG_ERROR, "%s", text);
    if (!dp_process_is_filtered())
        dp_agent_tick_note_no_sample(text);
}

/* Logs one line: files, samples, and every loss; or why there is no sample. */
static void talk(void)
{
    if (!dp_load_relaxed(&process_exit.speaks))
        return;
    bool aloud = dp_log_wants_info() || dp_log_end();
    uint64_t samples = dp_stats_read(DP_STAT_SAMPLES), files = dp_agent_tick_files();
    if (!samples)
        say_no_sample(aloud);
    if (!samples || !aloud)
        return;
    static DP_LARGE char losses[900]; /* used once per process; a crash handler has little stack */
    size_t n = 0;
    losses[0] = '\0';
    for (int i = 0; i < DP_STAT_N; i++) {
        uint64_t count = dp_stats_read(i);
        if (count && i != DP_STAT_SAMPLES && i != DP_STAT_TICKS)
            n += dp_text_format(losses + n, sizeof losses - n, "; %llu %s", (unsigned long long)count,
                                dp_stats_words(i));
    }
    if (dp_agent_tick_has_sink())
        dp_log(DP_LOG_ERROR, "%llu file%s in %s, %llu sample%s%s", (unsigned long long)files, files == 1 ? "" : "s",
               dp_agent_tick_directory(), (unsigned long long)samples, samples == 1 ? "" : "s", losses);
    else
        dp_log(DP_LOG_ERROR, "%llu sample%s%s", (unsigned long long)samples, samples == 1 ? "" : "s", losses);
    char summary[200];
    dp_agent_summary_text(summary, sizeof summary, (int64_t)dp_heap_bytes_seen());
    if (*summary && dp_agent_tick_has_sink())
        dp_log(DP_LOG_ERROR, "%s -> deltaprof %s", summary, dp_agent_tick_directory());
}

/*
 * Whether this is a worker that was forked a short time ago. Programs may start thousands of them, and opening a module
 * and reading symbols takes longer than most of them live.
 */
static bool is_short_lived(void)
{
    int64_t forked_ns = dp_load_relaxed(&process_exit.forked_ns);
    return forked_ns && dp_clock_ns() - forked_ns < SHORT_LIVED_NS;
}

/* False: another thread is writing the profiles, and had not finished at the deadline. */
static bool write_in_time(bool may_load, int64_t deadline_ns)
{
    bool crashed = dp_load_relaxed(&process_exit.crashed);
    if (crashed && dp_agent_tick_is_mine()) /* the background thread, or it waits for this one */
        return dp_agent_tick_crashed(deadline_ns) != -EBUSY;
    if (crashed && dp_agent_is_self())
        return dp_agent_tick_last(deadline_ns) != -EBUSY;
    if (dp_agent_finish(deadline_ns))
        return true;
    if (dp_agent_is_running())
        return false;
    if (dp_process_is_filtered())
        return true; /* no file can be written */
    if (!may_load)
        return dp_agent_tick_last(deadline_ns) != -EBUSY;
    return (is_short_lived() ? dp_agent_tick_known(deadline_ns) : dp_agent_tick(deadline_ns)) != -EBUSY;
}

/*
 * Logs that the last profiles were not written. Bypasses the host's log callback: the other thread may be stuck in it,
 * or it may need a lock that this thread holds.
 */
static void say_late(void)
{
    char timeout[32];
    if (!dp_agent_tick_has_sink())
        return;
    dp_text_time(timeout, sizeof timeout, dp_load_relaxed(&process_exit.timeout_ns));
    dp_log_bypass(true);
    dp_log(DP_LOG_ERROR, "exit_timeout=%s: the last profiles were not written to %s in time; they %s", timeout,
           dp_agent_tick_directory(), dp_agent_tick_lost_words());
    dp_log_bypass(false);
}

static void deliver(bool ordinary, int64_t deadline_ns)
{
    bool inside_malloc = deltaprof_is_guarded();
    dp_heap_flush_bytes();
    int64_t kept = deltaprof_guard_enter();
    dp_agent_tick_set_last(true);
    if (!ordinary && !dp_load_relaxed(&process_exit.begun)) /* a signal: no handler of exit has freed anything */
        dp_agent_tick_set_exit(true);
    if (!ordinary)
        dp_log_bypass(true);
    if (!ordinary && inside_malloc)
        dp_agent_tick_set_in_handler(true); /* the agent may need the allocator's lock that this thread holds */
    bool is_in_time = write_in_time(ordinary && !inside_malloc, deadline_ns);
    if (!is_in_time)
        say_late();
    else if (!dp_shared_file_is_own())
        dp_stats_add(DP_STAT_LATE, dp_agent_tick_late_samples());
    talk();
    if (is_in_time && dp_agent_tick_is_delivered())
        dp_shared_file_set_end(dp_agent_tick_late_samples() != 0);
    if (!ordinary)
        dp_log_bypass(false);
    dp_agent_tick_set_exit(false);
    deltaprof_guard_exit(kept);
}

/* Whether the calling thread is the first of those in exit that are known. */
static bool is_first(void)
{
    int32_t self = (int32_t)syscall(SYS_gettid), first = 0;
    return dp_cas_acquire(&process_exit.first, &first, self) || first == self;
}

static void deliver_before_handlers(void)
{
    if (dp_load_relaxed(&process_exit.armed) && dp_process_is_noted() && !dp_agent_is_self())
        is_first(); /* notes a main thread that returned */
    if (!dp_load_relaxed(&process_exit.armed) || !dp_process_is_noted() || dp_agent_is_self() ||
        !dp_load_relaxed(&process_exit.timeout_ns) || dp_load_relaxed(&process_exit.state) != NOT_YET ||
        is_short_lived() || deltaprof_is_guarded())
        return;
    bool begun = false;
    if (!dp_cas_relaxed(&process_exit.begun, &begun, true))
        return;
    int saved = errno;
    dp_heap_flush_bytes();
    int64_t kept = deltaprof_guard_enter();
    dp_agent_tick_set_exit(true);
    dp_store_relaxed(&process_exit.late, !write_in_time(true, dp_agent_exit_deadline()));
    dp_agent_tick_set_exit(false);
    deltaprof_guard_exit(kept);
    errno = saved;
}

void dp_agent_exit_before_handlers(void)
{
    bool reported = dp_thread_report_begin();
    deliver_before_handlers();
    dp_thread_report_end(reported);
}

/* Returns a signal that came meanwhile and is to be sent again; 0: none. */
static int deliver_once(bool ordinary)
{
    if (!dp_load_relaxed(&process_exit.armed) || !dp_process_is_noted() ||
        (dp_agent_is_self() && !dp_load_relaxed(&process_exit.crashed)))
        return 0;
    uint32_t state = NOT_YET;
    int64_t deadline_ns = dp_load_relaxed(&process_exit.late) ? dp_clock_ns() : dp_agent_exit_deadline();
    int32_t self = (int32_t)syscall(SYS_gettid);
    if (dp_cas_acquire(&process_exit.state, &state, UNDER_WAY)) {
        dp_store_relaxed(&process_exit.by, self);
        if (dp_load_relaxed(&process_exit.timeout_ns))
            deliver(ordinary, deadline_ns);
        dp_store_release(&process_exit.state, OVER);
        dp_futex_wake(&process_exit.state);
        return dp_load_relaxed(&process_exit.later);
    }
    if (dp_load_relaxed(&process_exit.by) != self)
        while (dp_load_acquire(&process_exit.state) == UNDER_WAY && dp_clock_ns() < deadline_ns)
            dp_futex_wait(&process_exit.state, UNDER_WAY, deadline_ns);
    return 0;
}

void dp_agent_exit_deliver(bool ordinary)
{
    int saved = errno;
    bool reported = dp_thread_report_begin();
    int sig = deliver_once(ordinary);
    dp_thread_report_end(reported);
    if (sig)
        syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), sig);
    errno = saved;
}

bool dp_agent_exit_put_off(int sig)
{
    int none = 0;
    return dp_load_acquire(&process_exit.state) == UNDER_WAY && dp_process_is_noted() &&
           dp_load_relaxed(&process_exit.by) == (int32_t)syscall(SYS_gettid) &&
           dp_cas_relaxed(&process_exit.later, &none, sig);
}

/*
 * A thread that returned from main runs exit without a call of this function. dp_agent_exit_before_handlers notes that
 * thread before the first handler of the program runs. If the program has no handlers, its delivery shows in `state`
 * once it has begun.
 */
void dp_agent_exit_begins(void)
{
    bool reported = dp_thread_report_begin();
    if (!is_first() || dp_load_acquire(&process_exit.state) == UNDER_WAY)
        dp_agent_exit_deliver(true);
    dp_thread_report_end(reported);
}

void dp_agent_exit_deliver_crash(void)
{
    dp_agent_tick_set_in_handler(true);
    dp_store_relaxed(&process_exit.crashed, true);
    bool inside = dp_load_acquire(&process_exit.state) == UNDER_WAY &&
                  dp_load_relaxed(&process_exit.by) == (int32_t)syscall(SYS_gettid);
    if (inside) /* crashed in the delivery at exit, and does not return to it */
        deliver(false, dp_agent_exit_deadline());
    else
        dp_agent_exit_deliver(false);
}

void dp_agent_exit_cancelled(void)
{
    dp_agent_tick_set_last(false);
    dp_agent_tick_set_in_handler(false);
    dp_store_relaxed(&process_exit.begun, false);
    dp_store_relaxed(&process_exit.late, false);
    dp_store_relaxed(&process_exit.crashed, false);
    dp_store_relaxed(&process_exit.later, 0);
    dp_store_relaxed(&process_exit.state, NOT_YET);
}

DP_IN_CHILD void dp_agent_exit_fork_child(void)
{
    dp_store_relaxed(&process_exit.begun, false);
    dp_store_relaxed(&process_exit.late, false);
    dp_store_relaxed(&process_exit.crashed, false);
    dp_store_relaxed(&process_exit.later, 0);
    dp_store_relaxed(&process_exit.state, NOT_YET);
    dp_store_relaxed(&process_exit.first, 0);
    dp_store_relaxed(&process_exit.speaks, false);
    dp_store_relaxed(&process_exit.forked_ns, dp_clock_coarse_ns());
}
