/* SPDX-License-Identifier: MIT */
/* The page of the waits under way: what it says of locks by their kind and address, and of the time. */
#include "support/unit.h"
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/block_record.h"
#include "base/clock.h"
#include "host/locks/waiting.h"
#include "host/locks/waits_page.h"
#include "support/bytes.h"

#include <deltaprof/hooks.h>

static struct bytes page;

static int end(void **state)
{
    dp_vec_fini(&page.all);
    return 0;
}

/* The page while this thread waits for a lock of that kind, since `since_ms`. */
static const char *page_of(const void *lock, unsigned kind, int64_t since_ms)
{
    int64_t begin_ns = dp_clock_ns() - since_ms * 1000000;
    dp_waiting_slot slot = dp_waiting_begin(lock, kind, begin_ns, record, 1000);
    page.all.n = 0;
    assert_int_equal(dp_waits_write(keep, &page), 0);
    assert_int_equal(keep(&page, "", 1), 0);
    dp_waiting_end(slot, dp_clock_ns());
    return (const char *)page.all.at;
}

TEST(without_a_wait_there_is_one_line)
{
    page.all.n = 0;
    assert_int_equal(dp_waits_write(keep, &page), 0);
    assert_int_equal(page.all.n, strlen("0 threads wait\n"));
    assert_memory_equal(page.all.at, "0 threads wait\n", page.all.n);
}

TEST(a_lock_without_an_address_is_described_by_its_kind)
{
    static const struct {
        unsigned kind;
        const char *words;
    } kinds[] = {
        {DELTAPROF_LOCK_MUTEX, " that another process may hold"},
        {DELTAPROF_LOCK_READ, " that another process may hold"},
        {DELTAPROF_LOCK_WRITE, " that another process may hold"},
        {DELTAPROF_LOCK_JOIN, " with a thread that has not ended"},
        {DELTAPROF_LOCK_COND, " of an address that is not known"},
        {DELTAPROF_LOCK_SEM, " of an address that is not known"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *text = page_of(NULL, kinds[i].kind, 0);
        assert_non_null(strstr(text, "1 thread waits\n"));
        assert_non_null(strstr(text, kinds[i].words));
    }
}

TEST(a_wait_is_told_with_its_thread_its_time_and_its_address)
{
    static const int lock;
    char thread[64], address[64];
    const char *text = page_of(&lock, DELTAPROF_LOCK_SEM, 3600500);
    snprintf(thread, sizeof thread, "\nthread %d waits 3600.", (int)syscall(SYS_gettid));
    snprintf(address, sizeof address, " %p", (const void *)&lock);
    assert_non_null(strstr(text, thread));
    assert_non_null(strstr(text, address));
    assert_non_null(strstr(text, "\n    ")); /* its stack */
}

UNIT(start, end)
