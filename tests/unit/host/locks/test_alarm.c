/* SPDX-License-Identifier: MIT */
/* A thread that waits for a mutex which it holds itself: from when that is said, how often, and where memory is short.
 */
#include "support/unit.h"
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "support/block_record.h"
#include "base/clock.h"
#include "base/mem.h"
#include "host/locks/alarm.h"
#include "host/locks/holders.h"
#include "host/locks/waiting.h"

#include <deltaprof/hooks.h>

#define SECOND INT64_C(1000000000)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

struct wait {
    int64_t ns;
    unsigned kind;
};

/* Tells of a wait for the mutex, which this thread holds, and blocks until the main thread unlocks it. */
static void *wait_for_itself(void *arg)
{
    const struct wait *wait = arg;
    pthread_mutex_lock(&mutex);
    dp_waiting_slot slot = dp_waiting_begin(&mutex, wait->kind, dp_clock_ns() - wait->ns, record, 1000);
    pthread_mutex_lock(&mutex);
    dp_waiting_end(slot, dp_clock_ns());
    dp_waiting_thread_ends();
    pthread_mutex_unlock(&mutex);
    return arg;
}

/* Returns when the one wait is listed and its thread is blocked. */
static void await_block(void)
{
    for (;;) {
        struct dp_waiting wait;
        for (unsigned i = 0; i < dp_waiting_slots(); i++)
            if (dp_waiting_read(i, &wait) && dp_waits_is_blocked(&wait))
                return;
        sched_yield();
    }
}

static bool is_said(int64_t ns, unsigned kind, bool is_short)
{
    struct wait wait = {ns, kind};
    char text[2000] = "";
    int64_t waited_ns = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_itself, &wait), 0);
    await_block();
    if (is_short)
        dp_mem_cap(dp_mem_used());
    bool found = dp_waits_worst(text, sizeof text, &waited_ns);
    dp_mem_cap((size_t)64 << 20);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
    if (found) {
        assert_non_null(strstr(text, "deadlock of a thread with itself: thread "));
        assert_non_null(strstr(text, " held by itself,"));
        assert_true(waited_ns >= ns);
    }
    return found;
}

TEST(a_thread_that_waits_for_itself_is_said_after_a_second)
{
    assert_true(is_said(SECOND, DELTAPROF_LOCK_MUTEX, false));
    assert_true(is_said(3600 * SECOND, DELTAPROF_LOCK_MUTEX, false));
    assert_false(is_said(-3600 * SECOND, DELTAPROF_LOCK_MUTEX, false)); /* a clock that was set back */
}

TEST(without_memory_nothing_is_said_until_there_is_some)
{
    assert_false(is_said(3600 * SECOND, DELTAPROF_LOCK_MUTEX, true));
    assert_true(is_said(3600 * SECOND, DELTAPROF_LOCK_MUTEX, false));
}

UNIT(start, NULL)
