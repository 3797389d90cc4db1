/* SPDX-License-Identifier: MIT */
/*
 * host/wall/watch.c - turns the profile of threads' lives on and off, and looks where threads are.
 *
 * A look costs next to nothing for a thread that waits on: if its CPU clock still shows what it showed at the last
 * look, it has not run, stands where it stood, and all the time in between belongs there. That is one system call, and
 * after some such looks none for a few looks. Only a thread that has run is asked where it is now (place.h), unless it
 * waits for a lock, which its hook has recorded. Looks come at random times, half to one and a half `wall_rate` apart,
 * so that they are not in step with timers of the program.
 *
 * Reports bring the accounts up to now without looking: the rows of a thread sum to its life at each report.
 *
 * Threads that no hook saw begin are found in /proc/self/task, every second, at first more often; their lives begin
 * there. A thread that ends unseen, as of raw clone, ends with its last look. Threads of the profiler have no rows.
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
    struct dp_lock lock; /* all below, unless stated otherwise */
    _Atomic int64_t rate_ns, window_ns, last_ns;
    _Atomic uint32_t n_windows;
    _Atomic bool forbidden; /* relaxed: for ever */
    uint32_t n_looks, n_lists;
    int64_t list_ns; /* when to list the threads again */
    int32_t keeper;  /* the thread that keeps descriptors */
} watch;

static int64_t wanted_ns(void)
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

/* Enters a listed thread. */
static int visit_thread(int32_t tid, void *ctx)
{
    (void)ctx;
    dp_wall_slot slot = dp_wall_thread_find(tid);
    if (dp_thread_is_own_id(tid)) {
        if (slot)
            dp_wall_thread_remove(slot);
        return 0;
    }
    if (!slot && !dp_wall_thread_has_ended(tid)) {
        struct dp_wall_clocks now = dp_wall_clocks_read(tid, true);
        slot = now.clock_ns < 0 ? 0 : dp_wall_thread_add(tid, &now);
        if (slot && dp_wall_thread_has_ended(tid)) { /* meanwhile */
            dp_wall_thread_remove(slot);
            slot = 0;
        }
    }
    if (slot)
        dp_wall_thread_at(slot)->seen = watch.n_lists;
    return 0;
}

/* Threads that the last list did not have, and that have no clock any more, are gone. */
static void remove_dead(void)
{
    for (dp_wall_slot slot = 1; slot <= DP_WALL_THREADS; slot++) {
        int32_t tid = dp_wall_thread_tid(slot);
        if (tid > 0 && dp_wall_thread_at(slot)->seen != watch.n_lists && dp_cpu_clock_ns(tid) < 0)
            dp_wall_thread_remove(slot);
    }
    dp_wall_place_close(false);
}

static void list_threads(bool first)
{
    watch.n_lists++;
    int err = dp_cpu_proc_threads(visit_thread, NULL);
    if (err < 0 && first) /* no /proc: at least the calling thread */
        visit_thread((int32_t)syscall(SYS_gettid), NULL);
    if (err >= 0 && !first)
        remove_dead();
    watch.list_ns = dp_clock_ns() + (watch.n_lists < LISTS_OFTEN ? LIST_NS : LIST_RARELY_NS);
}

/* Notes the waits for locks under way. */
static void note_waits(void)
{
    struct dp_waiting wait;
    for (unsigned i = 0, n = dp_waiting_slots(); i < n; i++) {
        dp_wall_slot slot = dp_waiting_peek(i, &wait) ? dp_wall_thread_find(wait.tid) : 0;
        struct dp_wall_thread *t = slot ? dp_wall_thread_at(slot) : NULL;
        if (!t || (t->wait.begin_ns == wait.begin_ns && t->wait.slot == wait.slot) || !dp_wall_thread_claim(slot))
            continue;
        t->wait = wait;
        t->stands = false;
        t->next_look = 0;
        dp_wall_thread_unclaim(slot);
    }
}

/* Whether the wait that was noted goes on; else the account forgets it. The slot is claimed. */
static bool waits_on(struct dp_wall_thread *t)
{
    struct dp_waiting now;
    if (!t->wait.begin_ns)
        return false;
    if (dp_waiting_peek(t->wait.slot, &now) && now.begin_ns == t->wait.begin_ns)
        return true;
    t->wait.begin_ns = 0;
    t->stands = false;
    return false;
}

/* The slot is claimed. False: the thread is gone. */
static bool look_at(dp_wall_slot slot, int32_t tid, bool keeps)
{
    struct dp_wall_thread *t = dp_wall_thread_at(slot);
    bool waits = waits_on(t);
    struct dp_wall_clocks now = {.now_ns = dp_clock_ns(), .queue_ns = t->queue_ns};
    now.clock_ns = dp_cpu_clock_ns(tid);
    if (now.clock_ns < 0)
        return false;
    if (t->stands && now.clock_ns == t->clock_ns) {
        t->still += t->still < STILL_MAX;
        t->next_look = watch.n_looks + (1u << t->still);
        return true;
    }
    t->still = 0;
    if (dp_load_relaxed(&dp_labels_added) & DP_LABELS_THREAD)
        t->labels = dp_cpu_proc_labels(tid);
    uint32_t where = waits ? 0 : dp_wall_place_of(slot, tid, now.clock_ns, keeps);
    now.queue_ns = dp_wall_place_queue_ns(slot, tid, keeps);
    dp_wall_account(slot, &now, where, DP_WALL_GOES_ON);
    t->stands = where || waits;
    return true;
}

/* The thread in a slot, claimed; 0: there is none of the program's, or another thread works on its account. */
static int32_t claim_thread(dp_wall_slot slot)
{
    int32_t tid = dp_wall_thread_tid(slot);
    if (tid > 0 && dp_thread_is_own_id(tid)) { /* it was not known when it began */
        dp_wall_thread_remove(slot);
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
            dp_wall_thread_remove(slot);
    }
}

static void settle(bool all)
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
            waits_on(t);
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
    settle(all);
    dp_lock_unlock(&watch.lock);
    errno = saved;
}

/* ---- on and off ------------------------------------------------------------------------------------------------- */

/* What waits under way had of time before the profile is not in it. */
static void skip_waits(void)
{
    struct dp_waiting wait;
    for (unsigned i = 0, n = dp_waiting_slots(); i < n; i++)
        if (dp_waiting_peek(i, &wait))
            dp_waiting_collect(&wait, dp_clock_ns());
}

static void begin(int64_t period_ns)
{
    dp_wall_threads_init();
    watch.n_lists = 0;
    dp_wall_threads_listen(true);
    dp_store_relaxed(&dp_wall_now.period_ns, period_ns);
    list_threads(true);
    skip_waits();
}

static void end(void)
{
    settle(true);
    dp_store_relaxed(&dp_wall_now.period_ns, 0);
    dp_wall_threads_listen(false);
    for (dp_wall_slot slot = 1; slot <= DP_WALL_THREADS; slot++)
        if (dp_wall_thread_tid(slot) > 0)
            dp_wall_thread_remove(slot);
}

static void apply(void)
{
    int saved = errno;
    dp_lock_lock(&watch.lock);
    int64_t now_ns = dp_load_relaxed(&dp_wall_now.period_ns), wanted = wanted_ns();
    if (wanted)
        dp_store_relaxed(&watch.last_ns, wanted);
    if (!now_ns && wanted)
        begin(wanted);
    else if (now_ns && !wanted)
        end();
    else
        dp_store_relaxed(&dp_wall_now.period_ns, wanted);
    dp_lock_unlock(&watch.lock);
    errno = saved;
}

void dp_wall_tune(int64_t period_ns)
{
    dp_store_relaxed(&watch.rate_ns, period_ns);
    apply();
}

void dp_wall_window_begin(int64_t period_ns)
{
    dp_store_relaxed(&watch.window_ns, period_ns);
    dp_add_relaxed(&watch.n_windows, 1);
    apply();
}

void dp_wall_window_end(void)
{
    dp_sub_relaxed(&watch.n_windows, 1);
    apply();
}

void dp_wall_forbid(void)
{
    dp_store_relaxed(&watch.forbidden, true);
    apply();
}

/* Half to one and a half periods from now. */
static int64_t next_look_ns(int64_t period_ns)
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
        next_ns = next_look_ns(period_ns);
    } else {
        if (dp_clock_ns() >= watch.list_ns)
            list_threads(false);
        look_at_all(keeps);
        next_ns = next_look_ns(period_ns);
    }
    dp_lock_unlock(&watch.lock);
    errno = saved;
    return next_ns;
}

DP_IN_CHILD void dp_wall_fork_child(void)
{
    dp_lock_reset(&watch.lock);
    dp_store_relaxed(&watch.n_windows, 0); /* of replies that the child does not write */
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
