/* SPDX-License-Identifier: MIT */
/*
 * test_credit.c - interleavings of threads and reports through timers.c and watch.c themselves: rows get each
 * nanosecond of CPU time once.
 *
 * Both files are compiled in with each atomic operation and each system call as a point where another thread may go on
 * (schedules.h). The kernel is a table of clocks. What must hold: after each report all rows have together no more than
 * the process's clock; in the end they have just that, and of it the row for time of threads that ended unseen has no
 * more than such threads used.
 */
#include "support/unit.h"
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/lock.h"
#include "base/process.h"
#include "base/stats.h"
#include "host/cpu/addresses.h"
#include "host/cpu/proc.h"
#include "host/cpu/shared_signal.h"
#include "host/cpu/timers.h"
#include "host/table/event_ring.h"
#include "host/table/labels.h"
#include "host/table/record.h"
#include "host/thread/end.h"
#include "host/thread/thread.h"
#include "host/thread/tids.h"
#include "support/schedules.h"

enum { FIRST_TID = 100, THREADS = 3, SHORT = 7, LONG = 80 /* without a sample: [masked] */, PERIOD = 10 };
#define MS INT64_C(1000000)

/* ---- the kernel ---- */

static struct {
    int64_t clock_ns; /* -1: there is no such thread */
} kernel[THREADS];
static int64_t gone_ns;   /* clocks of threads that left */
static int64_t unseen_ns; /* what threads used after their end was seen, and those used whose end is not */
static int64_t rows_ns;
static unsigned n_wrong;
static bool reporting;

static int64_t process_ns(void)
{
    int64_t sum_ns = gone_ns;
    for (int i = 0; i < THREADS; i++)
        sum_ns += kernel[i].clock_ns > 0 ? kernel[i].clock_ns : 0;
    return sum_ns;
}

static long model_clock(clockid_t id, struct timespec *now)
{
    int tid = (int)~(uint32_t)(id >> 3);
    int64_t ns = id == CLOCK_PROCESS_CPUTIME_ID  ? process_ns()
                 : id == CLOCK_THREAD_CPUTIME_ID ? kernel[schedules.current].clock_ns
                 : tid - FIRST_TID < THREADS     ? kernel[tid - FIRST_TID].clock_ns
                                                 : -1;
    if (ns < 0)
        return errno = EINVAL, -1;
    *now = (struct timespec){ns / 1000000000, ns % 1000000000};
    return 0;
}

static long model_call(long number, ...)
{
    va_list arguments;
    long result = 0;
    schedules_step();
    va_start(arguments, number);
    if (number == SYS_gettid) {
        result = FIRST_TID + (long)schedules.current;
    } else if (number == SYS_clock_gettime) {
        clockid_t id = va_arg(arguments, clockid_t);
        result = model_clock(id, va_arg(arguments, struct timespec *));
    }
    va_end(arguments);
    return result;
}

static int model_list(int (*fn)(int32_t tid, void *ctx), void *ctx)
{
    int sum = 0;
    for (int i = 0; i < THREADS; i++) {
        schedules_step();
        if (kernel[i].clock_ns >= 0)
            sum += fn(FIRST_TID + i, ctx);
    }
    return sum;
}

static void add_to_row(int64_t ns)
{
    schedules_step();
    rows_ns += ns;
}

#undef dp_load_relaxed
#undef dp_load_acquire
#undef dp_load_total
#undef dp_store_relaxed
#undef dp_add_relaxed
#undef dp_sub_relaxed
#undef dp_swap_total
#undef dp_cas_relaxed
#undef dp_cas_publish
#define dp_load_relaxed(p)              (schedules_step(), atomic_load(p))
#define dp_load_acquire(p)              (schedules_step(), atomic_load(p))
#define dp_load_total(p)                (schedules_step(), atomic_load(p))
#define dp_store_relaxed(p, v)          (schedules_step(), atomic_store(p, v))
#define dp_add_relaxed(p, v)            (schedules_step(), atomic_fetch_add(p, v))
#define dp_sub_relaxed(p, v)            (schedules_step(), atomic_fetch_sub(p, v))
#define dp_swap_total(p, v)             (schedules_step(), atomic_exchange(p, v))
#define dp_cas_relaxed(p, expected, v)  (schedules_step(), atomic_compare_exchange_strong(p, expected, v))
#define dp_cas_publish(p, expected, v)  (schedules_step(), atomic_compare_exchange_strong(p, expected, v))
#define syscall(...)                    model_call(__VA_ARGS__)
#define dp_cpu_proc_threads(fn, ctx)    model_list(fn, ctx)
#define dp_cpu_proc_is_masked(tid, sig) ((void)(sig), true)
#define dp_cpu_addresses_turn()         ((void)0)
#define dp_record_is_ready()            true
#define dp_record_wait_ready()          true
#define dp_record_fork_copy_zero()      true
#define dp_record_intern(...)           true
#define dp_record_count(k, id, n, ns)   ((void)(id), add_to_row(ns))
#define dp_table_add(k, id, n, ns)      ((void)(id), add_to_row(ns))
#include "host/cpu/timers.c"
#include "host/cpu/watch.c"

/* ---- what threads do ---- */

static void begin_run(void)
{
    for (int i = 0; i < THREADS; i++) {
        kernel[i].clock_ns = -1;
        for (uint32_t place = 0; place < DP_TIDS_PLACES; place++)
            tids.at[dp_tids_slot(FIRST_TID + i, place) - 1] = 0;
    }
    gone_ns = unseen_ns = rows_ns = 0;
    memset(&watch, 0, sizeof watch);
    dp_cpu_state.period_ns = PERIOD * MS;
    dp_cpu_state.sig = 32;
    dp_cpu_state.room = 100;
    dp_cpu_state.n_timers = 0;
    dp_cpu_state.credited_ns = 0;
}

static void check(bool is_right)
{
    n_wrong += !is_right;
}

static void report(bool all)
{
    reporting = true;
    settle(all);
    reporting = false;
    check(rows_ns <= process_ns());
}

static void end_run(void)
{
    schedules.current = THREADS - 1; /* the one that reports has a clock of 0 */
    report(true);
    report(true);
    check(rows_ns == process_ns());
    check(watch.unseen_ns <= unseen_ns);
}

static void run_for(unsigned thread, int64_t ms)
{
    schedules_step();
    kernel[thread].clock_ns += ms * MS;
}

static void leave(unsigned thread)
{
    schedules_step();
    gone_ns += kernel[thread].clock_ns;
    kernel[thread].clock_ns = -1;
}

/* As its timer's handler does. */
static void sample(unsigned thread)
{
    dp_cpu_slot slot = dp_cpu_thread_find(FIRST_TID + (int)thread);
    if (slot)
        add_to_row(dp_cpu_thread_credit(slot, dp_cpu_own_clock_ns()));
}

/* A thread that pthread_create made. It uses more time between its end, as it is seen, and the kernel's. */
static void live(unsigned thread, int64_t long_ms)
{
    kernel[thread].clock_ns = 0;
    dp_cpu_thread_begins();
    run_for(thread, long_ms);
    sample(thread);
    run_for(thread, SHORT);
    ends(FIRST_TID + (int)thread);
    unseen_ns += LONG * MS;
    run_for(thread, LONG);
    leave(thread);
}

static void lives(unsigned thread)
{
    live(thread, LONG);
}

/*
 * Two, one after the other, with one id. The kernel gives thousands of other ids first, so no report is under way from
 * the first one's time to the second one's. Their clocks, in nanoseconds, do not end equal.
 */
static void lives_twice(unsigned thread)
{
    live(thread, LONG);
    if (!reporting)
        live(thread, LONG + 1);
}

/* A thread of raw clone. */
static void lives_unseen(unsigned thread)
{
    kernel[thread].clock_ns = 0;
    unseen_ns += (LONG + SHORT) * MS;
    run_for(thread, LONG);
    run_for(thread, SHORT);
    leave(thread);
}

static void reports(unsigned thread)
{
    kernel[thread].clock_ns = 0;
    report(false);
    report(false);
}

static void reports_all(unsigned thread)
{
    kernel[thread].clock_ns = 0;
    report(true);
}

/* As the background thread does between reports: it enters threads that may be about to enter themselves. */
static void looks(unsigned thread)
{
    kernel[thread].clock_ns = 0;
    scan_threads(false);
}

static void explore(unsigned preemptions, unsigned n, ...)
{
    va_list scripts;
    va_start(scripts, n);
    n_wrong = 0;
    schedules_explore(begin_run, end_run, preemptions, n, scripts);
    va_end(scripts);
    print_message("%llu orders, %llu steps\n", (unsigned long long)schedules.n_runs,
                  (unsigned long long)schedules.longest);
    assert_true(schedules.n_runs > 500);
    assert_int_equal(n_wrong, 0);
}

TEST(time_of_a_thread_is_counted_once_in_every_order)
{
    explore(3, 2, lives, reports);
    explore(3, 2, lives, reports_all);
    explore(3, 2, reports, lives);
}

TEST(a_look_that_is_preempted_costs_a_thread_no_time)
{
    explore(3, 2, lives, looks);
    explore(2, 2, looks, lives);
}

TEST(an_id_may_be_used_again)
{
    explore(3, 2, lives_twice, reports_all);
    explore(3, 2, reports, lives_twice);
}

TEST(time_of_a_thread_that_is_not_seen_is_counted_once)
{
    explore(4, 2, lives_unseen, reports);
    explore(3, 2, reports, lives_unseen);
    explore(2, 3, lives_unseen, reports, lives);
}

TEST(a_slot_is_found_where_all_have_threads_that_are_gone)
{
    begin_run();
    for (int32_t i = 1; i <= DP_TIDS_PLACES; i++)
        assert_int_not_equal(dp_cpu_thread_add(FIRST_TID + i * DP_TIDS_MAX, 0, false), 0);
    assert_int_equal(dp_cpu_thread_add(FIRST_TID, 0, false), 0);
    dp_cpu_slot ended = dp_cpu_thread_find(FIRST_TID + 5 * DP_TIDS_MAX);
    dp_store_relaxed(&dp_cpu_thread_at(ended)->has_ended, 1);
    assert_int_equal(dp_cpu_thread_add(FIRST_TID, 0, false), ended);
    assert_int_equal(dp_cpu_thread_find(FIRST_TID + 5 * DP_TIDS_MAX), 0);
}

TEST(a_thread_in_its_handler_does_not_block_the_signal)
{
    begin_run();
    kernel[0].clock_ns = 0;
    dp_cpu_slot slot = dp_cpu_thread_add(FIRST_TID, 0, false);
    struct dp_cpu_thread *thread = dp_cpu_thread_at(slot);
    kernel[0].clock_ns = LONG * MS;
    dp_store_relaxed(&thread->is_sampled, 1);
    assert_int_equal(settle_thread(slot, FIRST_TID, false), LONG * MS);
    assert_int_equal(dp_load_relaxed(&thread->no_stack), 0);
    assert_int_equal(rows_ns, 0);
    dp_store_relaxed(&thread->is_sampled, 0);
    assert_int_equal(settle_thread(slot, FIRST_TID, false), 0);
    assert_int_equal(dp_load_relaxed(&thread->no_stack), DP_FRAME_MASKED);
    assert_int_equal(rows_ns, LONG * MS);
}

TEST(the_profilers_own_work_in_a_thread_is_not_taken_for_a_blocked_signal)
{
    begin_run();
    schedules.current = 0; /* the thread of the first clock */
    kernel[0].clock_ns = 0;
    dp_cpu_slot slot = dp_cpu_thread_add(FIRST_TID, 0, false);
    struct dp_cpu_thread *thread = dp_cpu_thread_at(slot);
    bool blocked = dp_cpu_own_work_begin();
    kernel[0].clock_ns = LONG * MS;
    assert_int_equal(settle_thread(slot, FIRST_TID, false), 0);
    assert_int_equal(dp_load_relaxed(&thread->no_stack), DP_FRAME_PROFILER);
    assert_int_equal(rows_ns, LONG * MS);
    dp_cpu_own_work_end(blocked);
    assert_int_equal(dp_load_relaxed(&thread->no_stack), 0);
}

/* A thread blocks the signal while it looks at the others, so its own mask does not tell what the program does. */
TEST(a_thread_that_looks_does_not_block_the_signal)
{
    begin_run();
    kernel[0].clock_ns = 0;
    dp_cpu_slot slot = dp_cpu_thread_add(FIRST_TID, 0, false);
    kernel[0].clock_ns = LONG * MS;
    watch.blocked_tid = FIRST_TID;
    assert_int_equal(settle_thread(slot, FIRST_TID, false), LONG * MS);
    assert_int_equal(dp_load_relaxed(&dp_cpu_thread_at(slot)->no_stack), 0);
    watch.blocked_tid = 0;
    assert_int_equal(settle_thread(slot, FIRST_TID, false), 0);
    assert_int_equal(dp_load_relaxed(&dp_cpu_thread_at(slot)->no_stack), DP_FRAME_MASKED);
}

UNIT(NULL, NULL)
