/* SPDX-License-Identifier: MIT */
/*
 * host/wall/watch.c - turns the profile of threads' time on and off, and looks where threads are.
 *
 * A look at a thread first reads its CPU clock, with one system call. If the clock has not changed since the last look,
 * the thread has not run, so it is at the same place, and the time in between belongs there. After each such look the
 * thread skips 1, 3, and then 7 looks. If the thread has run, the look finds its place anew (place.h), unless the
 * thread waits for a lock: its hook has noted that (host/locks/waiting.h). The time between looks is random, half to
 * one and a half `wall_rate`, so that looks are not in step with timers of the program.
 *
 * A report brings the accounts up to now without a look. So the rows of a thread sum to its life at each report.
 *
 * A thread whose begin no hook saw is found in /proc/self/task, which is listed every second, and more often at first;
 * its profile begins there. A thread whose end no hook saw (raw clone) ends with its last look. Threads of the profiler
 * have no rows.
 */
#include "host/wall/watch.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/process.h"
#include "host/cpu/proc.h"
#include "host/cpu/timers.h"
#include "host/table/record.h"
#include "host/thread/thread.h"
#include "host/wall/place.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LISTS_OFTEN = 10, STILL_MAX = 3 /* then every 8th look */ };
#define LIST_NS        INT64_C(100000000)
#define LIST_RARELY_NS INT64_C(1000000000)
#define SETTLE_NS      INT64_C(100000000)

static struct {
    struct dp_lock lock; /* of looks, reports and on and off; guards what is not atomic */
    _Atomic int64_t rate_ns, window_ns, last_ns;
    _Atomic uint32_t n_windows;
    _Atomic bool forbidden; /* never reset */
    uint32_t n_looks, n_lists;
    int64_t list_ns; /* when to list the threads again */
    int32_t keeper;  /* id of the thread that keeps files open (place.c); 0: none */
} watch;

/* The time between looks that is to be in force; 0: off. */
static int64_t wanted_period_ns(void)
{
    int64_t rate_ns = dp_load_relaxed(&watch.rate_ns);
    if (dp_load_relaxed(&watch.forbidden))
        return 0;
    return rate_ns ? rate_ns : dp_load_relaxed(&watch.n_windows) ? dp_load_relaxed(&watch.window_ns) : 0;
}

int64_t dp_wall_profile_period_ns(void)
{
    int64_t last_ns = dp_load_relaxed(&watch.last_ns);
    return last_ns ? last_ns : DP_WALL_PERIOD_NS;
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

/* Adds a listed thread to the table. */
static int enter_thread(int32_t tid, void *ctx)
{
    (void)ctx;
    dp_wall_slot slot = dp_wall_thread_find(tid);
    if (dp_thread_is_own_id(tid)) {
        if (slot)
            dp_wall_thread_remove(slot, tid);
        return 0;
    }
    if (!slot && !dp_wall_thread_has_ended(tid)) {
        struct dp_wall_clocks now = dp_wall_clocks_read(tid, true);
        slot = now.clock_ns < 0 ? 0 : dp_wall_thread_add(tid, &now, false);
        if (slot && dp_wall_thread_has_ended(tid)) { /* meanwhile. [ENDED] */
            dp_wall_thread_remove(slot, tid);
            slot = 0;
        }
    }
    if (slot)
        dp_wall_thread_at(slot)->seen = watch.n_lists;
    return 0;
}

/* Removes threads that are gone: the last list did not have them, and they have no CPU clock. */
static void remove_dead(void)
{
    for (dp_wall_slot slot = 1; slot <= DP_WALL_THREADS; slot++) {
        int32_t tid = dp_wall_thread_tid(slot);
        if (tid > 0 && dp_wall_thread_at(slot)->seen != watch.n_lists && dp_cpu_clock_ns(tid) < 0)
            dp_wall_thread_remove(slot, tid);
    }
    dp_wall_place_close(false);
}

static void list_threads(bool first)
{
    watch.n_lists++;
    int err = dp_cpu_proc_threads(enter_thread, NULL);
    if (err < 0 && first) /* no /proc: the calling thread is known at least */
        enter_thread((int32_t)syscall(SYS_gettid), NULL);
    if (err >= 0 && !first)
        remove_dead();
    watch.list_ns = dp_clock_ns() + (watch.n_lists < LISTS_OFTEN ? LIST_NS : LIST_RARELY_NS);
}

/* Copies waits for locks that are under way to the accounts of their threads. */
static void note_waits(void)
{
    struct dp_waiting wait;
    for (unsigned i = 0, n = dp_waiting_slots(); i < n; i++) {
        dp_wall_slot slot = dp_waiting_peek(i, &wait) ? dp_wall_thread_find(wait.tid) : 0;
        struct dp_wall_thread *t = slot ? dp_wall_thread_at(slot) : NULL;
        if (!t || (t->wait.begin_ns == wait.begin_ns && t->wait.slot == wait.slot) || !dp_wall_thread_claim(slot))
            continue;
        t->wait = wait;
        t->is_still = false;
        t->next_look = 0;
        dp_wall_thread_unclaim(slot);
    }
}

/* Whether the noted wait of an account is still under way; clears it if not. The slot is claimed. */
static bool check_wait(struct dp_wall_thread *t)
{
    struct dp_waiting now;
    if (!t->wait.begin_ns)
        return false;
    if (dp_waiting_peek(t->wait.slot, &now) && now.begin_ns == t->wait.begin_ns)
        return true;
    t->wait.begin_ns = 0;
    t->is_still = false;
    return false;
}

/* Looks at one thread, whose slot is claimed. False: the thread is gone. */
static bool look_at(dp_wall_slot slot, int32_t tid, bool keeps)
{
    struct dp_wall_thread *t = dp_wall_thread_at(slot);
    bool waits = check_wait(t);
    struct dp_wall_clocks now = {.now_ns = dp_clock_ns(), .queue_ns = t->queue_ns};
    now.clock_ns = dp_cpu_clock_ns(tid);
    if (now.clock_ns < 0)
        return false;
    if (t->is_still && now.clock_ns == t->clock_ns) {
        t->n_still += t->n_still < STILL_MAX;
        t->next_look = watch.n_looks + (1u << t->n_still);
        return true;
    }
    t->n_still = 0;
    if (dp_load_relaxed(&dp_labels_added) & DP_LABELS_THREAD)
        t->labels = dp_cpu_proc_labels(tid);
    uint32_t where = waits ? 0 : dp_wall_place_of(slot, tid, now.clock_ns, keeps);
    now.queue_ns = dp_wall_place_queue_ns(slot, tid, keeps);
    dp_wall_account(slot, &now, where, DP_WALL_GOES_ON);
    t->is_still = where || waits;
    return true;
}

/* Claims a slot; returns its thread. 0: no thread of the program is there, or another thread has claimed it for long.
 */
static int32_t claim_thread(dp_wall_slot slot)
{
    int32_t tid = dp_wall_thread_tid(slot);
    if (tid > 0 && dp_thread_is_own_id(tid)) { /* it was added before it was known as the profiler's */
        dp_wall_thread_remove(slot, tid);
        return 0;
    }
    if (tid <= 0 || !dp_wall_thread_claim(slot))
        return 0;
    if (dp_wall_thread_tid(slot) == tid)
        return tid;
    dp_wall_thread_unclaim(slot);
    return 0;
}

static void look_at_all(bool keeps)
{
    watch.n_looks++;
    note_waits();
    for (dp_wall_slot slot = 1; slot <= DP_WALL_THREADS; slot++) {
        bool is_due = dp_wall_thread_tid(slot) > 0 && dp_wall_thread_at(slot)->next_look <= watch.n_looks;
        int32_t tid = is_due ? claim_thread(slot) : 0;
        if (!tid)
            continue;
        bool is_there = look_at(slot, tid, keeps);
        dp_wall_thread_unclaim(slot);
        if (!is_there)
            dp_wall_thread_remove(slot, tid);
    }
}

static void settle_accounts(bool all)
{
    if (!dp_record_is_ready() || !dp_record_fork_copy_zero())
        return;
    note_waits();
    for (dp_wall_slot slot = 1; slot <= DP_WALL_THREADS; slot++) {
        int32_t tid = claim_thread(slot);
        if (!tid)
            continue;
        struct dp_wall_thread *t = dp_wall_thread_at(slot);
        struct dp_wall_clocks now = {.clock_ns = dp_cpu_clock_ns(tid), .queue_ns = t->queue_ns};
        if (now.clock_ns >= 0) {
            check_wait(t);
            if (now.clock_ns != t->clock_ns)
                now = dp_wall_clocks_read(tid, false);
            else
                now.now_ns = dp_clock_ns();
        }
        if (now.clock_ns >= 0)
            dp_wall_account(slot, &now, 0, all ? DP_WALL_ENDS : DP_WALL_REPORT);
        dp_wall_thread_unclaim(slot);
    }
}

void dp_wall_settle(bool all)
{
    if (!dp_wall_is_on() || dp_process_has_seccomp() || !dp_lock_lock_until(&watch.lock, dp_clock_ns() + SETTLE_NS))
        return;
    int saved = errno;
    settle_accounts(all);
    dp_lock_unlock(&watch.lock);
    errno = saved;
}

/* ---- on and off ------------------------------------------------------------------------------------------------- */

/* Discards the time of waits under way that passed before the profile begins. */
static void skip_waits(void)
{
    struct dp_waiting wait;
    for (unsigned i = 0, n = dp_waiting_slots(); i < n; i++)
        if (dp_waiting_peek(i, &wait))
            dp_waiting_collect(&wait, dp_clock_ns());
}

static void turn_on(int64_t period_ns)
{
    dp_wall_threads_init();
    watch.n_lists = 0;
    dp_wall_threads_listen(true);
    dp_store_relaxed(&dp_wall_now.period_ns, period_ns);
    list_threads(true);
    skip_waits();
}

static void turn_off(void)
{
    settle_accounts(true);
    dp_store_relaxed(&dp_wall_now.period_ns, 0);
    dp_wall_threads_listen(false);
    for (dp_wall_slot slot = 1; slot <= DP_WALL_THREADS; slot++) {
        int32_t tid = dp_wall_thread_tid(slot);
        if (tid > 0)
            dp_wall_thread_remove(slot, tid);
    }
}

/* Turns the profile on or off, or changes its period, as wanted_period_ns says. */
static void apply_period(void)
{
    int saved = errno;
    dp_lock_lock(&watch.lock);
    int64_t before_ns = dp_load_relaxed(&dp_wall_now.period_ns), wanted_ns = wanted_period_ns();
    if (wanted_ns)
        dp_store_relaxed(&watch.last_ns, wanted_ns);
    if (!before_ns && wanted_ns)
        turn_on(wanted_ns);
    else if (before_ns && !wanted_ns)
        turn_off();
    else
        dp_store_relaxed(&dp_wall_now.period_ns, wanted_ns);
    dp_lock_unlock(&watch.lock);
    errno = saved;
}

void dp_wall_tune(int64_t period_ns)
{
    dp_store_relaxed(&watch.rate_ns, period_ns);
    apply_period();
}

void dp_wall_window_begin(int64_t period_ns)
{
    dp_store_relaxed(&watch.window_ns, period_ns);
    dp_add_relaxed(&watch.n_windows, 1);
    apply_period();
}

void dp_wall_window_end(void)
{
    dp_sub_relaxed(&watch.n_windows, 1);
    apply_period();
}

void dp_wall_forbid(void)
{
    dp_store_relaxed(&watch.forbidden, true);
    apply_period();
}

/* The time of the next look: half to one and a half periods from now. */
static int64_t draw_next_look(int64_t period_ns)
{
    int64_t now_ns = dp_clock_ns();
    uint64_t random = dp_hash_mix((uint64_t)now_ns ^ (uint64_t)watch.n_looks << 32);
    return now_ns + period_ns / 2 + (int64_t)(random % (uint64_t)period_ns);
}

int64_t dp_wall_look(bool keeps)
{
    int32_t self = (int32_t)syscall(SYS_gettid);
    if (!dp_wall_is_on() && watch.keeper != self)
        return INT64_MAX;
    dp_lock_lock(&watch.lock);
    int saved = errno;
    int64_t period_ns = dp_load_relaxed(&dp_wall_now.period_ns), next_ns = INT64_MAX;
    if (watch.keeper != self)
        dp_wall_place_reset();
    watch.keeper = keeps && period_ns ? self : 0;
    if (!period_ns) {
        dp_wall_place_close(true);
    } else if (dp_process_is_filtered() || !dp_record_is_ready() || !dp_record_fork_copy_zero()) {
        next_ns = draw_next_look(period_ns);
    } else {
        if (dp_clock_ns() >= watch.list_ns)
            list_threads(false);
        look_at_all(keeps);
        next_ns = draw_next_look(period_ns);
    }
    dp_lock_unlock(&watch.lock);
    errno = saved;
    return next_ns;
}

DP_IN_CHILD void dp_wall_fork_child(void)
{
    dp_lock_reset(&watch.lock);
    dp_store_relaxed(&watch.n_windows, 0); /* those of the parent's requests, which the child does not answer */
    dp_wall_threads_fork_child();
    if (!dp_wall_is_on())
        return;
    watch.n_lists = 0;
    watch.list_ns = 0;
    watch.keeper = 0;
    if (!dp_load_relaxed(&watch.rate_ns)) {
        dp_store_relaxed(&dp_wall_now.period_ns, 0);
        dp_wall_threads_listen(false);
    } else {
        dp_wall_thread_begins();
    }
}
