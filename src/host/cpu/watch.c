/* SPDX-License-Identifier: MIT */
/*
 * host/cpu/watch.c - turns the profile of CPU time on and off, and keeps its sums true.
 *
 * Threads that pthread_create makes begin with a timer while the profile is on. A look at /proc/self/task finds the
 * others: those that were there before, and raw clones. It comes after LOOK_NS at first, later after LOOK_RARELY_NS.
 *
 * Sums. Samples only share the CPU time out; the truth is in the clocks. Each thread's clock is read at its samples and
 * at its end, and each time the growth goes to a row, so a thread's rows sum to its clock. What it uses after its last
 * sample goes to [between samples]. A look finds threads that have used more than a few periods without a sample: if
 * they block the signal, which is pending, their time is [masked]; if they have no timer, [not walked]. A handler that
 * runs blocks the signal, too: a thread in it, or whose handler gave its time to a row meanwhile, is left alone
 * [SAMPLED]. A living thread's rest of less than a period waits for the thread's next sample: to give it to [between
 * samples] at each report would take the stacks from all threads that use little.
 *
 * Threads that ended unseen. The process's clock has their time too. What all rows and living threads have together is
 * subtracted from it; the difference goes to [between samples]. It is never too large: the process's clock is read
 * first, then all threads are listed, then their clocks are read. A thread that is not in the table yet would be taken
 * for one that ended, and would get the same time again when it is entered.
 *
 * RLIMIT_SIGPENDING. Each timer holds one of the user's signals that may be queued. The profile takes at most a quarter
 * of those that are free when it begins, so that sigqueue and timers of the program go on. If the program lowers the
 * limit later, the next look deletes timers until that holds again.
 *
 * The calling thread blocks the signal meanwhile: its handler writes the same rows. So a look that it makes says
 * nothing about whether the program blocks the signal in it.
 */
#include "host/cpu/watch.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/stats.h"
#include "host/cpu/addresses.h"
#include "host/cpu/handler.h"
#include "host/cpu/probe.h"
#include "host/cpu/proc.h"
#include "host/cpu/shared_signal.h"
#include "host/cpu/timers.h"
#include "host/table/record.h"
#include "host/thread/thread.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOOKS_OFTEN = 10 };
#define LOOK_NS        INT64_C(100000000)
#define LOOK_RARELY_NS INT64_C(1000000000)
#define LATE_NS        INT64_C(30000000) /* beside two periods: ticks, and long system calls */
#define SETTLE_NS      INT64_C(100000000)
#define EINTR_MAX      16 /* and one sample in EINTR_SHARE: the kernel is not as it should be */
#define EINTR_SHARE    64

static struct {
    struct dp_lock lock;                         /* all below, unless stated otherwise */
    _Atomic int64_t rate_ns, window_ns, last_ns; /* last_ns: the last period in force; 0: none was */
    _Atomic uint32_t n_windows;
    _Atomic bool forbidden; /* relaxed: for ever */
    uint16_t n_looks;       /* of this profile, modulo */
    uint32_t idle_looks;    /* since one found something */
    uint64_t limit;         /* signals that may be queued, when timers were last counted */
    int64_t process_ns;     /* the process's clock when the profile began */
    int64_t unseen_ns;      /* what rows got of threads that ended unseen */
    int32_t blocked_tid;    /* of a thread that blocks the signal only for this look; 0: none */
} watch;
static struct dp_log_cause cause;

static int64_t wanted_period_ns(void)
{
    int64_t rate_ns = dp_load_relaxed(&watch.rate_ns);
    return rate_ns ? rate_ns : dp_load_relaxed(&watch.n_windows) ? dp_load_relaxed(&watch.window_ns) : 0;
}

int64_t dp_cpu_profile_period_ns(void)
{
    int64_t last_ns = dp_load_relaxed(&watch.last_ns);
    return last_ns ? last_ns : DP_CPU_PERIOD_NS;
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

/* Moves the thread's credit on to its clock, and adds what that gives to a row. */
static void add_rest(dp_cpu_slot slot, int32_t tid, int64_t clock_ns, uint32_t frame)
{
    uint32_t labels = dp_cpu_proc_labels(tid);
    if (dp_cpu_thread_tid(slot) != tid)
        return;
    int64_t ns = dp_cpu_thread_credit(slot, clock_ns);
    if (ns)
        dp_cpu_add_synthetic(frame, labels, ns, tid, clock_ns);
}

/*
 * Whether the program blocks the signal in a thread. [SAMPLED] A handler that runs while the mask is read either runs
 * before or after that, too, or has given time to a row meanwhile.
 */
static bool is_masked(const struct dp_cpu_thread *thread, int32_t tid, int64_t credited_ns)
{
    return tid != watch.blocked_tid && !dp_load_acquire(&thread->is_sampled) &&
           dp_cpu_proc_is_masked(tid, dp_load_relaxed(&dp_cpu_state.sig)) && !dp_load_acquire(&thread->is_sampled) &&
           dp_load_relaxed(&thread->credited_ns) == credited_ns;
}

/* Returns what no row has of the thread's clock; 0 too if the thread is gone. */
static int64_t settle_thread(dp_cpu_slot slot, int32_t tid, bool all)
{
    struct dp_cpu_thread *thread = dp_cpu_thread_at(slot);
    int64_t clock_ns = dp_cpu_clock_ns(tid), credited_ns = dp_load_acquire(&thread->credited_ns); /* [SUM] */
    int64_t rest_ns = clock_ns - credited_ns;
    if (clock_ns < 0 || rest_ns <= 0)
        return 0;
    uint32_t frame = dp_cpu_rest_of(slot);
    if (!all && frame == DP_FRAME_BETWEEN) {
        if (rest_ns < 2 * dp_load_relaxed(&dp_cpu_state.period_ns) + LATE_NS || !is_masked(thread, tid, credited_ns))
            return rest_ns;
        dp_store_relaxed(&thread->no_stack, DP_FRAME_MASKED);
        frame = DP_FRAME_MASKED;
    }
    add_rest(slot, tid, clock_ns, frame);
    return 0;
}

/*
 * Whether the slot's thread has ended and is still listed. If it is gone, and another thread has its id, the slot is
 * made that thread's: no clock is behind its own credit.
 */
static bool is_ended(dp_cpu_slot slot, int32_t tid)
{
    struct dp_cpu_thread *thread = dp_cpu_thread_at(slot);
    if (!dp_load_relaxed(&thread->has_ended))
        return false;
    int64_t credited_ns = dp_load_relaxed(&thread->credited_ns), clock_ns = dp_cpu_clock_ns(tid);
    return clock_ns < 0 || clock_ns >= credited_ns || !dp_cpu_thread_renew(slot, credited_ns);
}

/* Enters a listed thread. first: a bool, the profile begins with this scan. 1: it was not known. */
static int enter_thread(int32_t tid, void *first)
{
    dp_cpu_slot slot = dp_cpu_thread_find(tid);
    bool is_new = !slot;
    if (!slot) {
        int64_t clock_ns = *(bool *)first ? dp_cpu_clock_ns(tid) : 0;
        if (clock_ns >= 0 && !(slot = dp_cpu_thread_add(tid, clock_ns, false)) && !dp_cpu_thread_find(tid))
            dp_stats_add(DP_STAT_CPU_UNLISTED, 1);
    }
    if (!slot)
        return 0;
    dp_cpu_thread_at(slot)->seen = watch.n_looks;
    if (dp_thread_is_own_id(tid))
        dp_cpu_thread_disarm(slot);
    else if (!is_ended(slot, tid))
        dp_cpu_thread_time(slot);
    return is_new;
}

/* Threads that the last look did not see, and that have no clock any more, are gone. */
static void remove_dead(void)
{
    for (dp_cpu_slot slot = 1; slot <= DP_CPU_THREADS; slot++) {
        int32_t tid = dp_cpu_thread_tid(slot);
        if (tid > 0 && dp_cpu_thread_at(slot)->seen != watch.n_looks && dp_cpu_clock_ns(tid) < 0)
            dp_cpu_thread_remove(slot, tid);
    }
}

static void scan_threads(bool first)
{
    watch.n_looks++;
    int n_new = dp_cpu_proc_threads(enter_thread, &first);
    if (n_new < 0 && first) /* no /proc: at least the calling thread */
        enter_thread((int32_t)syscall(SYS_gettid), &first);
    if (n_new >= 0 && !first)
        remove_dead();
    watch.idle_looks = n_new > 0 ? 0 : watch.idle_looks + 1;
}

/* ---- rests ------------------------------------------------------------------------------------------------------ */

/* Time of threads that ended unseen: see above. */
static void settle_unseen(int64_t process_ns, int64_t pending_ns)
{
    int64_t known_ns = dp_load_relaxed(&dp_cpu_state.credited_ns) + pending_ns + watch.unseen_ns;
    int64_t unseen_ns = process_ns - watch.process_ns - known_ns;
    if (unseen_ns > 0 && dp_cpu_add_synthetic(DP_FRAME_BETWEEN, 0, unseen_ns, 0, 0))
        watch.unseen_ns += unseen_ns;
}

/* False: there is nothing to settle yet, and no thread was listed. */
static bool settle(bool all)
{
    int64_t process_ns = dp_cpu_process_clock_ns(), pending_ns = 0;
    bool is_sampled = dp_load_relaxed(&dp_cpu_state.credited_ns) || !dp_load_relaxed(&dp_cpu_state.sig);
    if (!is_sampled && process_ns - watch.process_ns < dp_load_relaxed(&dp_cpu_state.period_ns))
        return false; /* a process that ends before its first sample writes no profile */
    if (!dp_record_is_ready() || !dp_record_fork_copy_zero())
        return false;
    scan_threads(false);
    dp_cpu_addresses_turn();
    for (dp_cpu_slot slot = 1; slot <= DP_CPU_THREADS; slot++) {
        int32_t tid = dp_cpu_thread_tid(slot);
        if (tid > 0)
            pending_ns += settle_thread(slot, tid, all);
    }
    settle_unseen(process_ns, pending_ns);
    return true;
}

bool dp_cpu_own_work_begin(void)
{
    bool blocked = dp_cpu_signal_block(true);
    int32_t tid = (int32_t)syscall(SYS_gettid);
    dp_cpu_slot slot = blocked || !dp_cpu_is_on() ? 0 : dp_cpu_thread_find(tid);
    if (slot && dp_record_is_ready() && dp_record_fork_copy_zero())
        add_rest(slot, tid, dp_cpu_own_clock_ns(), dp_cpu_rest_of(slot));
    if (slot) /* at once: a look meanwhile finds the signal blocked */
        dp_store_relaxed(&dp_cpu_thread_at(slot)->no_stack, DP_FRAME_PROFILER);
    return blocked;
}

void dp_cpu_own_work_end(bool blocked)
{
    dp_cpu_slot slot = blocked || !dp_cpu_is_on() ? 0 : dp_cpu_thread_find((int32_t)syscall(SYS_gettid));
    dp_cpu_signal_block(blocked); /* if a signal has come meanwhile, it is delivered here */
    if (slot)
        dp_store_relaxed(&dp_cpu_thread_at(slot)->no_stack, 0);
}

void dp_cpu_settle(bool all)
{
    if (!dp_cpu_is_on() || dp_process_has_seccomp() || !dp_lock_lock_until(&watch.lock, dp_clock_ns() + SETTLE_NS))
        return;
    int saved = errno;
    bool blocked = dp_cpu_signal_block(true);
    watch.blocked_tid = blocked ? 0 : (int32_t)syscall(SYS_gettid);
    settle(all);
    dp_cpu_signal_block(blocked);
    dp_lock_unlock(&watch.lock);
    errno = saved;
}

/* ---- on and off ------------------------------------------------------------------------------------------------- */

static void disarm_all(bool forget)
{
    for (dp_cpu_slot slot = 1; slot <= DP_CPU_THREADS; slot++) {
        int32_t tid = dp_cpu_thread_tid(slot);
        if (tid <= 0)
            continue;
        if (forget)
            dp_cpu_thread_remove(slot, tid);
        else
            dp_cpu_thread_disarm(slot);
    }
}

/* The signal that timers may use; 0: only clocks are read. */
static int signal_of_timers(void)
{
    int sig = dp_cpu_signal_install();
    bool is_harmless = sig > 0 && dp_cpu_probe_is_harmless(sig);
    if (sig <= 0)
        dp_log_once(&cause, ENOTSUP,
                    "cpu_rate: no signal can be had for CPU timers; CPU time is counted without stacks");
    else if (!is_harmless)
        dp_log_once(&cause, EINTR,
                    "cpu_rate: with this kernel the signals of CPU timers would interrupt system calls; CPU time is "
                    "counted without stacks");
    return is_harmless ? sig : 0;
}

static void begin(int64_t period_ns, int sig)
{
    dp_cpu_threads_init();
    if (dp_cpu_handler_init())
        dp_log(DP_LOG_ERROR, "cpu_rate: no memory for stacks (raise memory=); CPU time is counted without them");
    watch.limit = dp_cpu_proc_limit();
    dp_store_relaxed(&dp_cpu_state.room, dp_cpu_proc_timers_max(dp_load_relaxed(&dp_cpu_state.n_timers)));
    dp_store_relaxed(&dp_cpu_state.credited_ns, 0);
    watch.unseen_ns = 0;
    watch.idle_looks = 0;
    dp_store_relaxed(&dp_cpu_state.sig, sig);
    disarm_all(true); /* a thread that began while the last profile ended */
    watch.process_ns = dp_cpu_process_clock_ns();
    dp_swap_total(&dp_cpu_state.period_ns, period_ns); /* [OFF] */
    scan_threads(true);
}

static void end(void)
{
    settle(true);
    dp_swap_total(&dp_cpu_state.period_ns, 0); /* [OFF] */
    disarm_all(true);
}

/* Under the lock: makes the present state the wanted one. */
static void apply(void)
{
    int64_t now_ns = dp_load_relaxed(&dp_cpu_state.period_ns);
    int64_t wanted_ns = dp_load_relaxed(&watch.forbidden) ? 0 : wanted_period_ns();
    if (now_ns == wanted_ns)
        return;
    if (wanted_ns)
        dp_store_relaxed(&watch.last_ns, wanted_ns);
    int sig = now_ns ? 0 : signal_of_timers(); /* may try the signal, so it is not blocked yet */
    bool blocked = dp_cpu_signal_block(true);
    if (!now_ns) {
        begin(wanted_ns, sig);
    } else if (!wanted_ns) {
        end();
    } else { /* timers with the new period */
        disarm_all(false);
        dp_swap_total(&dp_cpu_state.period_ns, wanted_ns); /* [OFF] */
        scan_threads(false);
    }
    dp_cpu_signal_block(blocked);
}

static void apply_locked(void)
{
    int saved = errno;
    dp_lock_lock(&watch.lock);
    apply();
    dp_lock_unlock(&watch.lock);
    errno = saved;
}

void dp_cpu_tune(int64_t period_ns)
{
    dp_store_relaxed(&watch.rate_ns, period_ns);
    apply_locked();
}

void dp_cpu_window_begin(int64_t period_ns)
{
    dp_store_relaxed(&watch.window_ns, period_ns);
    dp_add_relaxed(&watch.n_windows, 1);
    apply_locked();
}

void dp_cpu_window_end(void)
{
    dp_sub_relaxed(&watch.n_windows, 1);
    apply_locked();
}

void dp_cpu_forbid(void)
{
    dp_store_relaxed(&watch.forbidden, true);
    apply_locked();
}

/* Timers whose signals end system calls, or meet a handler of the program's, are worse than no stacks. */
static void check_harm(void)
{
    uint64_t n_eintr = dp_stats_read(DP_STAT_CPU_INTERRUPTED);
    bool is_ours = dp_cpu_signal_restore();
    bool interrupts = n_eintr >= EINTR_MAX && n_eintr > dp_cpu_n_handled() / EINTR_SHARE;
    if (!dp_load_relaxed(&dp_cpu_state.sig) || (is_ours && !interrupts))
        return;
    dp_store_relaxed(&dp_cpu_state.sig, 0);
    disarm_all(false);
    dp_log_once(&cause, is_ours ? EINTR : EBUSY,
                is_ours ? "cpu_rate: signals of CPU timers seem to interrupt system calls; from now on CPU time is "
                          "counted without stacks"
                        : "cpu_rate: the program uses SIGPROF itself; from now on CPU time is counted without stacks");
}

/* Fewer signals may be queued than when timers were created: they are not the profiler's alone. */
static void follow_limit(void)
{
    uint64_t limit = dp_cpu_proc_limit(), before = watch.limit;
    watch.limit = limit;
    if (limit >= before)
        return;
    int32_t most = dp_cpu_proc_timers_max(dp_load_relaxed(&dp_cpu_state.n_timers));
    for (dp_cpu_slot slot = 1; slot <= DP_CPU_THREADS && dp_load_relaxed(&dp_cpu_state.n_timers) > most; slot++)
        if (dp_cpu_thread_tid(slot) > 0)
            dp_cpu_thread_disarm(slot);
    int32_t n = dp_load_relaxed(&dp_cpu_state.n_timers);
    dp_store_relaxed(&dp_cpu_state.room, most > n ? most - n : 0);
}

int64_t dp_cpu_look(void)
{
    if (!dp_cpu_is_on())
        return INT64_MAX;
    if (dp_process_is_filtered() || !dp_lock_try(&watch.lock))
        return dp_clock_ns() + LOOK_RARELY_NS;
    int saved = errno;
    bool blocked = dp_cpu_signal_block(true);
    check_harm();
    follow_limit();
    if (!settle(false))
        scan_threads(false);
    dp_cpu_signal_block(blocked);
    int64_t next_ns = dp_clock_ns() + (watch.idle_looks < LOOKS_OFTEN ? LOOK_NS : LOOK_RARELY_NS);
    dp_lock_unlock(&watch.lock);
    errno = saved;
    return next_ns;
}

void dp_cpu_cancelled(void)
{
    if (dp_cpu_is_on())
        dp_cpu_signal_restore();
}

DP_IN_CHILD void dp_cpu_fork_child(void)
{
    dp_lock_reset(&watch.lock);
    dp_store_relaxed(&watch.n_windows, 0); /* of replies that the child does not write */
    dp_cpu_handler_fork_child();
    dp_cpu_threads_fork_child();
    if (!dp_cpu_is_on())
        return;
    watch.unseen_ns = 0;
    watch.process_ns = 0;
    if (!dp_load_relaxed(&watch.rate_ns))
        dp_store_relaxed(&dp_cpu_state.period_ns, 0);
    else
        dp_cpu_thread_begins();
}
