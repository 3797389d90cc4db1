/* SPDX-License-Identifier: MIT */
/*
 * host/wall/threads.c - the table of threads whose time is profiled: adds threads at their begin, closes their accounts
 * at their end, and receives their CPU samples and waits for locks.
 *
 * A thread that pthread_create makes is added before the program's function runs. It closes its account in the last
 * round of its key destructors. Other threads are found by lists of /proc (watch.c). The background thread, a report,
 * and the thread itself at its end change an account. Each claims it first, and has it for microseconds.
 *
 * The hooks of the thread itself, maybe in a signal handler, claim nothing and only change atomics. A CPU sample is
 * added to its row at once, and moves run_ns on by compare-and-swap, so each nanosecond is added once. Waits are summed
 * by block record until the next account: their time contains time in queues of processors, which is only known then.
 * If a thread waits in more than DP_WALL_WAITS stacks between accounts, the wait is added to another stack: the sum is
 * right.
 *
 * [BUSY] claim acquires and unclaim releases an account: else a thread could see half of another one's changes.
 * [WAITED] A wait's time is added with release after its record is stored, and swapped out with acquire: else it could
 * go to the record of an earlier wait.
 * [ENDED] /proc lists a thread until it has left the kernel, so a list could add it again after its end. The thread
 * stores first that it has ended, then looks for its account. A list first adds the thread, then loads whether it has
 * ended, and removes it if so. Both use the total order, so at least one of the two sees the other.
 */
#include "host/wall/threads.h"

#include "base/mem.h"
#include "base/process.h"
#include "base/stats.h"
#include "host/cpu/timers.h"
#include "host/table/record.h"
#include "host/thread/end.h"
#include "host/thread/thread.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CLAIM_TRIES = 10000, ENDED = 256 };

struct dp_wall_state_now dp_wall_now;

static DP_LARGE struct dp_tids tids;
/* Mapped before the first thread is added; publishing a slot [SLOT] publishes it too. */
static struct dp_wall_thread *_Atomic threads;
static _Atomic uint32_t n_serials;
static _Atomic bool is_used; /* a thread was entered */
static struct {
    _Atomic int32_t tids[ENDED];
    _Atomic uint32_t n;
} ended;

static struct dp_thread_end thread_end;

const char *dp_wall_state_name(unsigned state)
{
    static const char *const names[DP_WALL_STATES] = {
        [DP_WALL_RUNNING] = "running", [DP_WALL_RUNNABLE] = "runnable", [DP_WALL_LOCK] = "lock",
        [DP_WALL_IO] = "io",           [DP_WALL_SLEEP] = "sleep",       [DP_WALL_FAULT] = "fault",
        [DP_WALL_UNKNOWN] = "unknown", [DP_WALL_LOCK_IDLE] = "lock",    [DP_WALL_IO_IDLE] = "io",
    };
    return state < DP_WALL_STATES ? names[state] : NULL;
}

struct dp_wall_thread *dp_wall_thread_at(dp_wall_slot slot)
{
    return dp_load_relaxed(&threads) + (slot - 1);
}

int32_t dp_wall_thread_tid(dp_wall_slot slot)
{
    return dp_tids_get(&tids, slot);
}

dp_wall_slot dp_wall_thread_find(int32_t tid)
{
    return dp_tids_find(&tids, tid);
}

/* 0: another thread enters it. */
static dp_wall_slot enter_id(dp_wall_slot slot, int32_t tid, const struct dp_wall_clocks *now, bool is_own)
{
    struct dp_wall_thread *t = dp_wall_thread_at(slot);
    dp_store_relaxed(&t->run_ns, now->clock_ns);
    dp_store_relaxed(&t->ran, 0);
    dp_store_relaxed(&t->busy, 0);
    dp_store_relaxed(&t->serial, dp_add_relaxed(&n_serials, 1) + 1);
    for (unsigned i = 0; i < DP_WALL_WAITS; i++) {
        dp_store_relaxed(&t->waits[i].record, 0);
        dp_store_relaxed(&t->waits[i].ns, 0);
    }
    t->until_ns = now->now_ns;
    t->clock_ns = now->clock_ns;
    t->queue_ns = now->queue_ns;
    t->unplaced_ns = 0;
    t->where = t->labels = 0;
    t->is_still = false;
    t->wait.begin_ns = 0;
    t->seen = t->next_look = t->n_still = 0;
    bool is_in = is_own ? dp_tids_publish_own(&tids, slot, tid) : dp_tids_publish(&tids, slot, tid);
    return is_in ? slot : 0;
}

dp_wall_slot dp_wall_thread_add(int32_t tid, const struct dp_wall_clocks *now, bool is_own)
{
    dp_wall_slot slot = 0;
    for (unsigned i = 0; !slot && i < DP_TIDS_TRIES && !dp_wall_thread_find(tid); i++) {
        slot = dp_load_relaxed(&threads) ? dp_tids_claim(&tids, tid) : 0;
        if (!slot) {
            dp_stats_add(DP_STAT_WALL_UNLISTED, 1);
            return 0;
        }
        dp_store_relaxed(&is_used, true);
        slot = enter_id(slot, tid, now, is_own);
    }
    return slot;
}

void dp_wall_thread_remove(dp_wall_slot slot, int32_t tid)
{
    dp_tids_remove(&tids, slot, tid);
}

bool dp_wall_thread_has_ended(int32_t tid)
{
    for (unsigned i = 0; i < ENDED; i++)
        if (dp_load_total(&ended.tids[i]) == tid) /* [ENDED] */
            return true;
    return false;
}

static void unmark_ended(int32_t tid)
{
    for (unsigned i = 0; i < ENDED; i++)
        if (dp_load_relaxed(&ended.tids[i]) == tid)
            dp_store_relaxed(&ended.tids[i], 0);
}

bool dp_wall_thread_claim(dp_wall_slot slot)
{
    for (unsigned i = 0; i < CLAIM_TRIES; i++) {
        uint32_t is_free = 0;
        if (dp_cas_acquire(&dp_wall_thread_at(slot)->busy, &is_free, 1)) /* [BUSY] */
            return true;
        sched_yield();
    }
    return false;
}

void dp_wall_thread_unclaim(dp_wall_slot slot)
{
    dp_store_release(&dp_wall_thread_at(slot)->busy, 0); /* [BUSY] */
}

/* ---- CPU samples and waits -------------------------------------------------------------------------------------- */

static void receive_sample(int32_t tid, int64_t clock_ns, uint32_t labels, const struct dp_stack *stack, int64_t n)
{
    dp_wall_slot slot = dp_wall_thread_find(tid);
    if (!slot)
        return;
    struct dp_wall_thread *t = dp_wall_thread_at(slot);
    int64_t ns = dp_wall_thread_credit(slot, clock_ns);
    if (!ns && !n)
        return;
    uint32_t id = dp_wall_record(labels, DP_WALL_RUNNING, stack);
    dp_wall_record_add(id, n, ns);
    if (n)
        dp_store_relaxed(&t->ran, id);
}

/* The entry in `waits` of a block record; else a free one; else one that another record has. */
static unsigned find_wait(const struct dp_wall_thread *t, dp_record_id record)
{
    unsigned other = record % DP_WALL_WAITS;
    for (unsigned i = 0; i < DP_WALL_WAITS; i++)
        if (dp_load_relaxed(&t->waits[i].record) == record + 1)
            return i;
        else if (!dp_load_relaxed(&t->waits[i].ns))
            other = i;
    return other;
}

static void receive_wait(int32_t tid, dp_record_id record, int64_t ns)
{
    dp_wall_slot slot = ns > 0 ? dp_wall_thread_find(tid) : 0;
    if (!slot)
        return;
    struct dp_wall_thread *t = dp_wall_thread_at(slot);
    unsigned i = find_wait(t, record);
    if (!dp_load_relaxed(&t->waits[i].ns))
        dp_store_relaxed(&t->waits[i].record, record + 1);
    dp_add_release(&t->waits[i].ns, ns); /* [WAITED] after the record */
}

void dp_wall_threads_listen(bool on)
{
    dp_store_relaxed(&dp_cpu_state.listener, on ? receive_sample : NULL);
    dp_waiting_listen(on ? receive_wait : NULL);
}

/* ---- threads that begin and end --------------------------------------------------------------------------------- */

static void close_account(int32_t tid)
{
    dp_swap_total(&ended.tids[dp_add_relaxed(&ended.n, 1) % ENDED], tid); /* [ENDED] */
    dp_wall_slot slot = dp_wall_thread_find(tid);
    if (!slot)
        return;
    const struct dp_stack none = {0};
    if (dp_wall_is_on() && dp_record_wait_ready() && dp_wall_thread_claim(slot)) {
        dp_wall_thread_at(slot)->labels = dp_labels_now(&none);
        struct dp_wall_clocks now = dp_wall_clocks_read(tid, false);
        dp_wall_account(slot, &now, 0, DP_WALL_ENDS);
        dp_wall_thread_unclaim(slot);
    }
    dp_wall_thread_remove(slot, tid);
}

static void handle_thread_end(void *value)
{
    int saved = errno;
    if (dp_thread_end_is_last(&thread_end, value))
        close_account((int32_t)syscall(SYS_gettid));
    errno = saved;
}

void dp_wall_threads_init(void)
{
    if (!dp_load_relaxed(&threads)) /* without memory no thread can be added, which is counted */
        dp_store_release(&threads, dp_mem_map(DP_WALL_THREADS * sizeof(struct dp_wall_thread)));
    dp_thread_end_init(&thread_end, handle_thread_end);
}

void dp_wall_thread_begins(void)
{
    int saved = errno;
    int32_t tid = (int32_t)syscall(SYS_gettid);
    struct dp_wall_clocks now = dp_wall_clocks_read(tid, true);
    dp_wall_slot slot = dp_wall_thread_find(tid);
    unmark_ended(tid); /* an earlier thread had this id */
    if (slot && dp_load_relaxed(&dp_wall_thread_at(slot)->run_ns) > now.clock_ns) {
        dp_wall_thread_remove(slot, tid); /* an earlier thread of this id, whose end no hook saw */
        slot = 0;
    }
    if (!slot)
        dp_wall_thread_add(tid, &now, true);
    dp_thread_end_watch(&thread_end);
    errno = saved;
}

DP_IN_CHILD void dp_wall_threads_fork_child(void)
{
    if (dp_load_relaxed(&is_used))
        memset(&tids, 0, sizeof tids);
    dp_store_relaxed(&is_used, false);
}
