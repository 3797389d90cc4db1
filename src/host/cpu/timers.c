/* SPDX-License-Identifier: MIT */
/*
 * host/cpu/timers.c - the table of threads whose CPU time is profiled, and their timers.
 *
 * A timer on a thread's own CPU clock, sent to that thread (SIGEV_THREAD_ID), fires after the thread has used
 * period_ns of CPU time. Any thread of the process can create it for any other, and delete it: the clock's number
 * contains the thread's id. So threads need not register, threads of raw clone can be timed, and turning a profile off
 * needs no help of theirs. A timer outlives its thread until it is deleted.
 *
 * 1. A thread has at most one slot (host/thread/tids.h), and keeps it until it has left the kernel. /proc lists it that
 *    long: if its end freed the slot, a list would enter it again, and its clock would go to rows a second time. A look
 *    frees slots of threads that are gone; where looks are too rare, the thread that finds no free slot does.
 * 2. credited_ns only grows, by compare-and-swap, and each step is added to a row by the thread that made it. So the
 *    rows of a thread sum to the last value of its clock that was read: weights of samples share out the true time. A
 *    new thread with the id of an earlier one takes over its slot, and swaps the credit for 0.
 * 3. A timer is deleted by the thread that swaps its id out of the slot. A thread that arms stores the id and then
 *    looks whether the profile is still on; one that turns it off first says so and then looks for ids [OFF]. So does
 *    the end of a thread.
 * 4. The sum of all credit is never less than the credit that a slot shows [SUM]: else a report would take the
 *    difference for time of threads that ended unseen, and add it to a row as well.
 *
 * The key is one of the first 32, whose values stand in the thread's own descriptor: setting it allocates nothing.
 * Destructors of later keys run in rounds; the last round is the end.
 */
#include "host/cpu/timers.h"

#include "base/clock.h"
#include "base/libc.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/stats.h"
#include "host/table/labels.h"
#include "host/table/event_ring.h"
#include "host/table/record.h"
#include "host/thread/end.h"
#include "host/thread/thread.h"
#include "host/thread/tids.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CLOCK_OF_THREAD = 4 | 2 /* CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED */ };

/* 97 of 100, so that samples are not in step with timers of the program. */
#define INTERVAL_OF(period_ns) ((period_ns) / 100 * 97 + (period_ns) % 100)

#define VALUE_MARK ((uint64_t)0xD9C1 << 48)

struct dp_cpu_state dp_cpu_state;

static DP_LARGE struct dp_tids tids;
static DP_LARGE struct dp_cpu_thread threads[DP_CPU_THREADS];
static _Atomic uint32_t n_serials;

static struct dp_thread_end end_of_thread;

struct dp_cpu_thread *dp_cpu_thread_at(dp_cpu_slot slot)
{
    return &threads[slot - 1];
}

int32_t dp_cpu_thread_tid(dp_cpu_slot slot)
{
    return dp_tids_get(&tids, slot);
}

dp_cpu_slot dp_cpu_thread_find(int32_t tid)
{
    return dp_tids_find(&tids, tid);
}

static void begin_slot(struct dp_cpu_thread *thread)
{
    dp_store_relaxed(&thread->serial, dp_add_relaxed(&n_serials, 1) + 1);
    dp_store_relaxed(&thread->no_stack, 0);
    dp_store_relaxed(&thread->is_ours, 0);
    dp_store_relaxed(&thread->is_untimed, 0);
    dp_store_relaxed(&thread->has_ended, 0);
    dp_store_relaxed(&thread->is_sampled, 0);
}

/* Of the slots in which the thread may stand, frees those of threads that have left the kernel. */
static void free_near(int32_t tid)
{
    for (uint32_t i = 0; i < DP_TIDS_PLACES; i++) {
        dp_cpu_slot slot = dp_tids_slot(tid, i);
        int32_t other = dp_cpu_thread_tid(slot);
        if (other > 0 && dp_load_relaxed(&dp_cpu_thread_at(slot)->has_ended) && dp_cpu_clock_ns(other) < 0)
            dp_cpu_thread_remove(slot, other);
    }
}

/* 0: there is no room near its place, or another thread enters it. */
static dp_cpu_slot enter_id(int32_t tid, int64_t credited_ns, bool is_own)
{
    dp_cpu_slot slot = dp_tids_claim(&tids, tid);
    if (!slot) {
        free_near(tid);
        slot = dp_tids_claim(&tids, tid);
    }
    if (!slot)
        return 0;
    struct dp_cpu_thread *thread = dp_cpu_thread_at(slot);
    dp_store_relaxed(&thread->credited_ns, credited_ns);
    dp_store_relaxed(&thread->timer, 0);
    begin_slot(thread);
    thread->seen = 0;
    if (is_own ? !dp_tids_publish_own(&tids, slot, tid) : !dp_tids_publish(&tids, slot, tid))
        return 0;
    dp_add_relaxed(&dp_cpu_state.n_threads, 1);
    return slot;
}

dp_cpu_slot dp_cpu_thread_add(int32_t tid, int64_t credited_ns, bool is_own)
{
    dp_cpu_slot slot = 0;
    for (unsigned i = 0; !slot && i < DP_TIDS_TRIES && !dp_cpu_thread_find(tid); i++)
        slot = enter_id(tid, credited_ns, is_own);
    return slot;
}

void dp_cpu_thread_remove(dp_cpu_slot slot, int32_t tid)
{
    if (!dp_tids_withdraw(&tids, slot, tid))
        return;
    dp_cpu_thread_disarm(slot);
    dp_tids_free(&tids, slot);
    dp_sub_relaxed(&dp_cpu_state.n_threads, 1);
}

bool dp_cpu_thread_renew(dp_cpu_slot slot, int64_t credited_ns)
{
    struct dp_cpu_thread *thread = dp_cpu_thread_at(slot);
    if (!dp_cas_relaxed(&thread->credited_ns, &credited_ns, 0))
        return false;
    dp_cpu_thread_disarm(slot); /* of the earlier thread */
    begin_slot(thread);
    return true;
}

/* ---- clocks ----------------------------------------------------------------------------------------------------- */

/* By system call: no program interposes it, and the kernel's object does not know these clocks. */
static int64_t read_clock(clockid_t id)
{
    struct timespec now;
    int saved = errno;
    int64_t ns = syscall(SYS_clock_gettime, id, &now) ? -errno : now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    errno = saved;
    return ns;
}

static clockid_t clock_of(int32_t tid)
{
    return (clockid_t)(~(uint32_t)tid << 3 | CLOCK_OF_THREAD);
}

int64_t dp_cpu_clock_ns(int32_t tid)
{
    return read_clock(clock_of(tid));
}

int64_t dp_cpu_own_clock_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

int64_t dp_cpu_process_clock_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t dp_cpu_thread_credit(dp_cpu_slot slot, int64_t now_ns)
{
    struct dp_cpu_thread *thread = dp_cpu_thread_at(slot);
    int64_t before_ns = dp_load_relaxed(&thread->credited_ns);
    while (now_ns > before_ns) {
        int64_t ns = now_ns - before_ns;
        dp_add_relaxed(&dp_cpu_state.credited_ns, ns);
        if (dp_cas_publish(&thread->credited_ns, &before_ns, now_ns)) /* [SUM] */
            return ns;
        dp_sub_relaxed(&dp_cpu_state.credited_ns, ns);
    }
    return 0;
}

bool dp_cpu_add_synthetic(uint32_t frame, uint32_t labels, int64_t ns, int32_t tid, int64_t clock_ns)
{
    struct dp_stack stack = {.hash = dp_stack_hash(&frame, 1), .depth = 1, .frames = &frame};
    dp_record_id id;
    if (!dp_record_intern(DP_KIND_CPU, labels, &stack, &id))
        return false;
    if (!dp_load_relaxed(&dp_cpu_state.sig))
        dp_record_count(DP_KIND_CPU, id, 0, ns);
    else /* no sample: a process without any writes no profile */
        dp_table_add(DP_KIND_CPU, id, 0, ns);
    if (tid)
        dp_cpu_tell(tid, clock_ns, labels, &stack, 0);
    return true;
}

/* ---- timers ----------------------------------------------------------------------------------------------------- */

uint64_t dp_cpu_value_of(dp_cpu_slot slot, uint32_t serial)
{
    return VALUE_MARK | (uint64_t)slot << 32 | serial;
}

bool dp_cpu_value_read(uint64_t value, dp_cpu_slot *slot, uint32_t *serial)
{
    *slot = value >> 32 & 0xFFFF;
    *serial = (uint32_t)value;
    return (value & (uint64_t)0xFFFF << 48) == VALUE_MARK && *slot <= DP_CPU_THREADS;
}

/* The first interval is drawn: threads that begin together are not sampled together. */
static struct itimerspec interval(int64_t period_ns, int32_t tid)
{
    int64_t each_ns = INTERVAL_OF(period_ns);
    uint64_t random = dp_hash_mix((uint64_t)dp_clock_ns() ^ (uint64_t)(uint32_t)tid << 32);
    int64_t first_ns = 1 + (int64_t)(random % (uint64_t)each_ns);
    return (struct itimerspec){.it_interval = {each_ns / 1000000000, each_ns % 1000000000},
                               .it_value = {first_ns / 1000000000, first_ns % 1000000000}};
}

/* False: as many timers exist as there may be. */
static bool claim_room(void)
{
    int32_t room = dp_load_relaxed(&dp_cpu_state.room);
    while (room > 0)
        if (dp_cas_relaxed(&dp_cpu_state.room, &room, room - 1))
            return true;
    return false;
}

static void delete_timer(int id)
{
    syscall(SYS_timer_delete, id);
    dp_sub_relaxed(&dp_cpu_state.n_timers, 1);
    dp_add_relaxed(&dp_cpu_state.room, 1);
}

static int create_timer(dp_cpu_slot slot, int32_t tid, int sig, int64_t period_ns)
{
    struct dp_cpu_thread *thread = dp_cpu_thread_at(slot);
    uint64_t value = dp_cpu_value_of(slot, dp_load_relaxed(&thread->serial));
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = sig};
    int id;
    memcpy(&event.sigev_value, &value, sizeof value);
    event.sigev_notify_thread_id = tid;
    if (!claim_room())
        return -EDQUOT;
    if (syscall(SYS_timer_create, clock_of(tid), &event, &id)) {
        dp_add_relaxed(&dp_cpu_state.room, 1);
        return errno == EAGAIN ? -EDQUOT : -errno;
    }
    dp_add_relaxed(&dp_cpu_state.n_timers, 1);
    struct itimerspec each = interval(period_ns, tid);
    if (syscall(SYS_timer_settime, id, 0, &each, NULL)) {
        int err = -errno;
        delete_timer(id);
        return err;
    }
    int32_t other = dp_swap_total(&thread->timer, id + 1); /* [OFF] */
    if (other)                                             /* the thread and a scan both created one */
        delete_timer(other - 1);
    return 0;
}

/*
 * Creates the thread's timer, with a first interval that is drawn. Deletes it again if the profile ended meanwhile. 0;
 * -EDQUOT: no timer may be created; -errno. Any thread may do it for any other one.
 */
static int arm_thread(dp_cpu_slot slot)
{
    int saved = errno, sig = dp_load_relaxed(&dp_cpu_state.sig);
    int64_t period_ns = dp_load_relaxed(&dp_cpu_state.period_ns);
    int32_t tid = dp_cpu_thread_tid(slot);
    int err = sig && period_ns && tid > 0 ? create_timer(slot, tid, sig, period_ns) : 0;
    if (!err && (!dp_load_total(&dp_cpu_state.period_ns) || !dp_load_total(&dp_cpu_state.sig) ||
                 dp_load_total(&dp_cpu_thread_at(slot)->has_ended))) /* [OFF] */
        dp_cpu_thread_disarm(slot);
    errno = saved;
    return err;
}

void dp_cpu_thread_time(dp_cpu_slot slot)
{
    struct dp_cpu_thread *thread = dp_cpu_thread_at(slot);
    if (dp_load_relaxed(&thread->timer) || !arm_thread(slot) || dp_load_relaxed(&thread->is_untimed))
        return;
    dp_store_relaxed(&thread->is_untimed, 1);
    dp_stats_add(DP_STAT_CPU_UNTIMED, 1);
}

void dp_cpu_thread_disarm(dp_cpu_slot slot)
{
    int32_t timer = dp_swap_total(&dp_cpu_thread_at(slot)->timer, 0); /* [OFF] */
    int saved = errno;
    if (timer)
        delete_timer(timer - 1);
    errno = saved;
}

/* ---- threads that begin and end --------------------------------------------------------------------------------- */

uint32_t dp_cpu_rest_of(dp_cpu_slot slot)
{
    const struct dp_cpu_thread *thread = dp_cpu_thread_at(slot);
    if (dp_load_relaxed(&thread->is_ours) || dp_thread_is_own_id(dp_cpu_thread_tid(slot)))
        return DP_FRAME_PROFILER;
    if (!dp_load_relaxed(&dp_cpu_state.sig) || dp_load_relaxed(&thread->is_untimed))
        return DP_FRAME_NOT_WALKED;
    return dp_load_relaxed(&thread->no_stack) ? dp_load_relaxed(&thread->no_stack) : DP_FRAME_BETWEEN;
}

/* Credits what the thread used since its last sample. Its slot stays until it is gone. */
static void ends(int32_t tid)
{
    dp_cpu_slot slot = dp_cpu_thread_find(tid);
    if (!slot)
        return;
    dp_swap_total(&dp_cpu_thread_at(slot)->has_ended, 1); /* [OFF] */
    dp_cpu_thread_disarm(slot);
    const struct dp_stack none = {0};
    if (dp_cpu_is_on() && dp_record_wait_ready()) {
        int64_t clock_ns = dp_cpu_own_clock_ns(), ns = dp_cpu_thread_credit(slot, clock_ns);
        if (ns)
            dp_cpu_add_synthetic(dp_cpu_rest_of(slot), dp_labels_now(&none), ns, tid, clock_ns);
    }
}

static void key_ends(void *value)
{
    if (dp_thread_end_is_last(&end_of_thread, value))
        ends((int32_t)syscall(SYS_gettid));
}

void dp_cpu_threads_init(void)
{
    dp_thread_end_init(&end_of_thread, key_ends);
}

void dp_cpu_thread_begins(void)
{
    int saved = errno;
    int32_t tid = (int32_t)syscall(SYS_gettid);
    dp_thread_unmark_own_id(tid);
    dp_cpu_slot slot = dp_cpu_thread_find(tid);
    int64_t credited_ns = slot ? dp_load_relaxed(&dp_cpu_thread_at(slot)->credited_ns) : 0;
    if (slot && (dp_load_relaxed(&dp_cpu_thread_at(slot)->has_ended) || credited_ns > dp_cpu_own_clock_ns()))
        dp_cpu_thread_renew(slot, credited_ns); /* an earlier thread had this id; maybe it ended unseen */
    if (!slot && !(slot = dp_cpu_thread_add(tid, 0, true)))
        slot = dp_cpu_thread_find(tid); /* a scan has added it meanwhile */
    if (slot)
        dp_cpu_thread_time(slot);
    dp_thread_end_watch(&end_of_thread);
    errno = saved;
}

DP_IN_CHILD void dp_cpu_threads_fork_child(void)
{
    if (dp_load_relaxed(&dp_cpu_state.n_threads))
        memset(&tids, 0, sizeof tids);
    dp_add_relaxed(&dp_cpu_state.room, dp_load_relaxed(&dp_cpu_state.n_timers));
    dp_store_relaxed(&dp_cpu_state.n_timers, 0);
    dp_store_relaxed(&dp_cpu_state.n_threads, 0);
    dp_store_relaxed(&dp_cpu_state.credited_ns, 0);
}
