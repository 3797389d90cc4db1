/* SPDX-License-Identifier: MIT */
#include "support/unit.h"

#include "base/mem.h"
#include "host/table/record.h"
#include "host/table/table.h"
#include "host/wall/calls.h"
#include "host/wall/threads.h"
#include "profile/lock_kinds.h"

#include <fcntl.h>
#include <sys/syscall.h>

#define MS INT64_C(1000000)

enum { TID = 1 << 20 };

static uint64_t seed = 1;
static dp_record_id of_mutex, of_cond;

static dp_record_id wait_record(dp_frame_id frame, unsigned kind)
{
    struct dp_stack stack = {.hash = dp_stack_hash(&frame, 1), .depth = 1, .frames = &frame};
    return dp_table_intern(DP_KIND_BLOCK, 0, dp_labels_of_lock(kind), &stack);
}

static int start(void **state)
{
    (void)state;
    dp_mem_cap((size_t)64 << 20);
    int err = dp_table_init(16 << 20, 0);
    dp_wall_threads_init();
    dp_record_open(NULL);
    of_mutex = wait_record(DP_FRAME_FIRST_REAL, DP_LOCK_MUTEX);
    of_cond = wait_record(DP_FRAME_FIRST_REAL + 1, DP_LOCK_COND);
    return err;
}

/* Sums of all rows by state; returns the sum of all. */
static int64_t sum_rows(int64_t sums[DP_WALL_STATES])
{
    int64_t all = 0;
    for (unsigned i = 0; i < DP_WALL_STATES; i++)
        sums[i] = 0;
    for (uint32_t id = 0, n = dp_table_count(DP_KIND_WALL); id < n; id++) {
        struct dp_counts counts;
        dp_table_read(DP_KIND_WALL, id, &counts);
        if (counts.n || counts.v)
            sums[dp_wall_state_of(dp_table_record(DP_KIND_WALL, id)->labels)] += counts.v;
        all += counts.v;
    }
    return all;
}

/* A stretch of a thread's life, and what it adds to the rows. */
static int64_t account(struct dp_wall_clocks now, uint32_t where, enum dp_wall_account_end end, bool is_still,
                       int64_t mutex_ns, int64_t cond_ns, int64_t added[DP_WALL_STATES])
{
    int64_t before[DP_WALL_STATES];
    struct dp_wall_clocks begin = {0, 0, 0};
    dp_wall_slot slot = dp_wall_thread_find(TID);
    if (!slot)
        slot = dp_wall_thread_add(TID, &begin, false);
    struct dp_wall_thread *t = dp_wall_thread_at(slot);
    int64_t all = sum_rows(before);
    t->is_still = is_still;
    t->waits[0].record = of_mutex + 1;
    t->waits[0].ns += mutex_ns;
    t->waits[1].record = of_cond + 1;
    t->waits[1].ns += cond_ns;
    dp_wall_account(slot, &now, where, end);
    all = sum_rows(added) - all;
    for (unsigned i = 0; i < DP_WALL_STATES; i++)
        added[i] -= before[i];
    return all;
}

static int64_t random_below(int64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 16) % (uint64_t)n);
}

static void forget_thread(void)
{
    dp_wall_slot slot = dp_wall_thread_find(TID);
    if (slot)
        dp_wall_thread_remove(slot, TID);
}

TEST(a_stretch_is_divided_to_the_nanosecond)
{
    int64_t added[DP_WALL_STATES];
    uint32_t where = dp_wall_record_synthetic(0, DP_WALL_IO, DP_FRAME_NO_STACK);
    forget_thread();
    account((struct dp_wall_clocks){100 * MS, 10 * MS, 5 * MS}, where, DP_WALL_GOES_ON, false, 0, 0, added);
    assert_int_equal(added[DP_WALL_RUNNING], 10 * MS);
    assert_int_equal(added[DP_WALL_RUNNABLE], 5 * MS);
    assert_int_equal(added[DP_WALL_IO], 85 * MS);
}

TEST(waits_have_their_part_without_queues)
{
    int64_t added[DP_WALL_STATES];
    uint32_t where = dp_wall_record_synthetic(0, DP_WALL_IO, DP_FRAME_NO_STACK);
    forget_thread();
    /* Half of the 90 ms that it did not run it waited for locks, and a tenth of them it was in a queue. */
    account((struct dp_wall_clocks){100 * MS, 10 * MS, 9 * MS}, where, DP_WALL_GOES_ON, false, 30 * MS, 15 * MS, added);
    assert_int_equal(added[DP_WALL_LOCK], 27 * MS);
    assert_int_equal(added[DP_WALL_LOCK_IDLE], 13500000);
    assert_int_equal(added[DP_WALL_IO], 40500000);
    assert_int_equal(added[DP_WALL_RUNNABLE], 9 * MS);
}

TEST(time_without_a_place_waits_for_one)
{
    int64_t added[DP_WALL_STATES];
    uint32_t where = dp_wall_record_synthetic(0, DP_WALL_SLEEP, DP_FRAME_NO_STACK);
    forget_thread();
    assert_int_equal(account((struct dp_wall_clocks){50 * MS, 20 * MS, 0}, 0, DP_WALL_GOES_ON, false, 0, 0, added),
                     20 * MS);
    account((struct dp_wall_clocks){100 * MS, 40 * MS, 0}, where, DP_WALL_GOES_ON, false, 0, 0, added);
    assert_int_equal(added[DP_WALL_SLEEP], 60 * MS);
    /* A report gives it to the last place; without one it is unknown. */
    account((struct dp_wall_clocks){200 * MS, 50 * MS, 0}, 0, DP_WALL_REPORT, false, 0, 0, added);
    assert_int_equal(added[DP_WALL_SLEEP], 90 * MS);
    forget_thread();
    account((struct dp_wall_clocks){100 * MS, 40 * MS, 0}, 0, DP_WALL_ENDS, false, 0, 0, added);
    assert_int_equal(added[DP_WALL_UNKNOWN], 60 * MS);
}

/* The kernel tells of a time in a queue when it is over; a look in between may have given it to another state. */
TEST(time_in_a_queue_is_in_rows_once)
{
    int64_t added[DP_WALL_STATES];
    forget_thread();
    /* A wait of 35 ms has ended, and since then the thread has been in a queue for 15 ms, which no one knows yet. */
    int64_t sum = account((struct dp_wall_clocks){60 * MS, 10 * MS, 0}, 0, DP_WALL_GOES_ON, false, 50 * MS, 0, added);
    assert_int_equal(added[DP_WALL_LOCK], 50 * MS);
    sum += account((struct dp_wall_clocks){62 * MS, 11 * MS, 16 * MS}, 0, DP_WALL_GOES_ON, false, 0, 0, added);
    assert_int_equal(added[DP_WALL_RUNNING], MS);
    assert_int_equal(added[DP_WALL_RUNNABLE], MS);
    assert_int_equal(sum, 62 * MS);
    sum += account((struct dp_wall_clocks){63 * MS, 12 * MS, 16 * MS}, 0, DP_WALL_ENDS, false, 0, 0, added);
    assert_int_equal(sum, 63 * MS);
    forget_thread();
    /* If it goes on, the lock has had its share of the next wait already. */
    sum = account((struct dp_wall_clocks){60 * MS, 10 * MS, 0}, 0, DP_WALL_GOES_ON, false, 50 * MS, 0, added);
    sum += account((struct dp_wall_clocks){62 * MS, 11 * MS, 16 * MS}, 0, DP_WALL_GOES_ON, false, 0, 0, added);
    sum += account((struct dp_wall_clocks){90 * MS, 12 * MS, 16 * MS}, 0, DP_WALL_ENDS, false, 27 * MS, 0, added);
    assert_int_equal(added[DP_WALL_RUNNABLE], 15 * MS);
    assert_int_equal(added[DP_WALL_LOCK], 12 * MS);
    assert_int_equal(sum, 90 * MS);
}

/* Whatever clocks and waits say, and though clocks are not read at one moment. */
TEST(states_sum_to_the_life)
{
    int64_t added[DP_WALL_STATES], sum = 0;
    struct dp_wall_clocks now = {0, 0, 0};
    uint32_t places[] = {0, dp_wall_record_synthetic(0, DP_WALL_IO, DP_FRAME_NO_STACK),
                         dp_wall_record_synthetic(0, DP_WALL_SLEEP, DP_FRAME_OTHER)};
    forget_thread();
    for (int i = 0; i < 20000; i++) {
        int64_t passed = random_below(200 * MS), run = random_below(3) ? random_below(passed + 1) : 0;
        now.now_ns += passed;
        now.clock_ns += run + random_below(2000) - (run > 2000 ? 1000 : 0);
        now.queue_ns += random_below(passed - run + 1);
        enum dp_wall_account_end end = random_below(10) ? DP_WALL_GOES_ON : DP_WALL_REPORT;
        sum += account(now, places[random_below(3)], end, random_below(2), random_below(100 * MS), random_below(2 * MS),
                       added);
        for (unsigned k = 0; k < DP_WALL_STATES; k++)
            assert_true(added[k] >= 0);
        assert_int_equal(sum + dp_wall_thread_at(dp_wall_thread_find(TID))->unplaced_ns, now.now_ns);
    }
}

TEST(each_system_call_has_its_state)
{
    uint64_t arguments[6] = {0}, one[6] = {1, 1, 1}, several[6] = {8, 8};
    assert_int_equal(dp_wall_state_of_call(-1, arguments), DP_WALL_FAULT);
    assert_int_equal(dp_wall_state_of_call(SYS_futex, arguments), DP_WALL_LOCK);
    assert_int_equal(dp_wall_state_of_call(SYS_clock_nanosleep, arguments), DP_WALL_SLEEP);
    assert_int_equal(dp_wall_state_of_call(SYS_wait4, arguments), DP_WALL_SLEEP);
    assert_int_equal(dp_wall_state_of_call(SYS_read, arguments), DP_WALL_IO);
    assert_int_equal(dp_wall_state_of_call(SYS_openat, arguments), DP_WALL_IO);
    assert_int_equal(dp_wall_state_of_call(SYS_ppoll, arguments), DP_WALL_SLEEP);
    assert_int_equal(dp_wall_state_of_call(SYS_ppoll, one), DP_WALL_IO);
    assert_int_equal(dp_wall_state_of_call(SYS_ppoll, several), DP_WALL_IO_IDLE);
    assert_int_equal(dp_wall_state_of_call(SYS_epoll_pwait, one), DP_WALL_IO_IDLE);
    assert_int_equal(dp_wall_state_of_call(SYS_accept4, one), DP_WALL_IO_IDLE);
    arguments[1] = F_SETLKW;
    assert_int_equal(dp_wall_state_of_call(SYS_fcntl, arguments), DP_WALL_LOCK);
    arguments[1] = F_GETFL;
    assert_int_equal(dp_wall_state_of_call(SYS_fcntl, arguments), DP_WALL_IO);
}

UNIT(start, NULL)
