/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/consumers.h"
#include "host/locks/futex_class.h"
#include "host/table/labels.h"

#include <deltaprof/locks.h>

/* A record of the mutex profile with these frames, to which n contentions of 10 ns are added. */
static void owe(const dp_frame_id *frames, uint32_t depth, uint32_t labels, int64_t n)
{
    struct dp_stack stack = {.hash = dp_stack_hash(frames, depth), .depth = depth, .frames = frames};
    dp_record_id id;
    assert_true(dp_record_add(DP_KIND_MUTEX, 0, labels, &stack, n, 10 * n, &id));
}

/* Writes a delta of the mutex profile: the samples, and the sum of their contentions. */
static void profile_has(struct dp_consumer *c, size_t n_rows, int64_t n)
{
    write_and_commit(c);
    assert_int_equal(said.n_rows, n_rows);
    assert_int_equal(said.sums[0], n);
    assert_int_equal(said.sums[1], 10 * n);
}

static struct dp_consumer *new_mutex_consumer(void)
{
    struct dp_consumer *c = dp_consumer_new(DELTAPROF_MUTEX, NULL);
    assert_non_null(c);
    assert_int_equal(dp_consumer_skip(c), 0);
    return c;
}

/* Some functions are known to lock a mutex by a futex. Their waits are shown as a mutex's, with a holder or without. */
TEST(a_mutex_and_a_futex_without_a_holder_are_one_sample)
{
    const dp_frame_id hand_over = DP_FRAME_HAND_OVER, unknown = DP_FRAME_UNKNOWN_HOLDER;
    uint32_t mutex = dp_labels_of_lock(DELTAPROF_LOCK_MUTEX), futex = dp_labels_of_futex(DP_LOCK_MUTEX);
    struct dp_consumer *c = new_mutex_consumer();
    owe(&hand_over, 1, mutex, 1);
    owe(&hand_over, 1, futex, 2);
    owe(&hand_over, 1, dp_labels_of_futex(DP_LOCK_RWLOCK), 4);
    owe(&unknown, 1, mutex, 8);
    owe(&unknown, 1, futex, 16);
    profile_has(c, 3, 31);
    owe(&hand_over, 1, mutex, 1);
    profile_has(c, 1, 1);
    owe(&hand_over, 1, futex, 1);
    profile_has(c, 1, 1);
    dp_consumer_free(c);
}

/* One call through a pointer may unlock a mutex of libc's, or another whose own function then wakes. */
TEST(a_mutex_and_a_futex_of_one_caller_are_one_sample)
{
    const dp_frame_id frames[] = {dp_frame_intern(PC(1)), dp_frame_intern(PC(2)), dp_frame_intern(PC(3))};
    const dp_frame_id others[] = {dp_frame_intern(PC(4)), dp_frame_intern(PC(3))};
    uint32_t mutex = dp_labels_of_lock(DELTAPROF_LOCK_MUTEX);
    struct dp_consumer *c = new_mutex_consumer();
    dp_futex_set_verdict(frames[0], DP_LOCK_MUTEX);
    owe(frames, 3, dp_labels_of_futex(DP_LOCK_MUTEX), 1);
    owe(frames + 1, 2, mutex, 2);
    owe(others, 2, mutex, 4);
    owe(frames + 1, 2, dp_labels_of_lock(DELTAPROF_LOCK_WRITE), 8);
    profile_has(c, 3, 15);
    profile_has(c, 0, 0);
    dp_consumer_free(c);
}

UNIT(records_begin, NULL)
