/* SPDX-License-Identifier: MIT */
/* The lists of waiters: which are listed, what each weighs when a holder pays, and which a holder takes for its own. */
#include "support/unit.h"

#include "host/locks/pairing.h"

#include "base/clock.h"

enum { UNIT = 8192, SHARED = 4096 }; /* ns of one unit of weight; slots that far apart share a list */

static struct dp_waiter found[DP_WAITERS_MOST];

/* Whether the list of the slot has that waiter alone, with that weight. */
static bool pays(dp_contended_slot slot, int64_t now_ns, dp_record_id record, uint32_t weight)
{
    unsigned n = dp_waiters_pay(slot, now_ns, found);
    return n == 1 && found[0].record == record && found[0].weight == weight;
}

TEST(nothing_is_listed_without_lists_or_slot)
{
    assert_int_equal(dp_waiters_add(1, 7, 0), 0);
    assert_int_equal(dp_waiters_pay(1, UNIT, found), 0);
    assert_int_equal(dp_waiters_init(), 0);
    assert_int_equal(dp_waiters_add(0, 7, 0), 0);
    assert_int_equal(dp_waiters_pay(0, UNIT, found), 0);
    dp_waiters_remove(0, 0);
    dp_waiters_remove(1, 0);
    assert_int_equal(dp_waiters_pay(1, UNIT, found), 0);
}

TEST(a_waiter_is_paid_from_its_begin_and_then_from_the_last_payment)
{
    dp_waiters_entry entry = dp_waiters_add(2, UINT32_MAX, 101 * UNIT);
    assert_int_equal(entry, 1);
    assert_true(pays(2, 111 * UNIT, UINT32_MAX, 10));
    assert_true(pays(2, 115 * UNIT, UINT32_MAX, 4));
    assert_true(pays(2, 115 * UNIT, UINT32_MAX, 0));
    dp_waiters_remove(2, entry);
    assert_int_equal(dp_waiters_pay(2, 121 * UNIT, found), 0);
}

TEST(the_eighth_waiter_is_not_listed_until_a_place_is_free)
{
    dp_waiters_entry entries[DP_WAITERS_MOST];
    for (unsigned i = 0; i < DP_WAITERS_MOST; i++)
        assert_int_equal(entries[i] = dp_waiters_add(3, 100 + i, (201 + 2 * (int64_t)i) * UNIT), i + 1);
    assert_int_equal(dp_waiters_add(3, 200, 301 * UNIT), 0);
    assert_int_equal(dp_waiters_pay(3, 401 * UNIT, found), DP_WAITERS_MOST);
    for (unsigned i = 0; i < DP_WAITERS_MOST; i++) {
        assert_int_equal(found[i].record, 100 + i);
        assert_int_equal(found[i].weight, 200 - 2 * i);
    }
    dp_waiters_remove(3, entries[4]);
    assert_int_equal(dp_waiters_add(3, 200, 403 * UNIT), 5);
    assert_int_equal(dp_waiters_pay(3, 411 * UNIT, found), DP_WAITERS_MOST);
    assert_int_equal(found[4].record, 200);
    assert_int_equal(found[4].weight, 8);
    assert_int_equal(found[6].weight, 10);
    for (unsigned i = 0; i < DP_WAITERS_MOST; i++)
        dp_waiters_remove(3, (dp_waiters_entry)(i + 1));
    assert_int_equal(dp_waiters_pay(3, 413 * UNIT, found), 0);
}

TEST(slots_that_share_a_list_pay_their_own_waiters)
{
    dp_waiters_entry one = dp_waiters_add(4, 11, 501 * UNIT), other = dp_waiters_add(4 + SHARED, 12, 503 * UNIT);
    assert_true(one && other && one != other);
    assert_true(pays(4, 511 * UNIT, 11, 10));
    assert_true(pays(4 + SHARED, 513 * UNIT, 12, 10)); /* a payment of the other slot does not count */
    assert_true(pays(4 + SHARED, 515 * UNIT, 12, 2));
    assert_int_equal(dp_waiters_pay(4 + 2 * SHARED, 517 * UNIT, found), 0);
    assert_int_equal(dp_waiters_pay(5, 517 * UNIT, found), 0);
    dp_waiters_remove(4, one);
    dp_waiters_remove(4 + SHARED, other);
}

/* Times wrap after 2^29 units. */
TEST(a_wait_across_the_wrap_keeps_its_weight)
{
    int64_t wrap = (INT64_C(1) << 29) * UNIT;
    dp_waiters_entry entry = dp_waiters_add(6, 13, wrap - 9 * UNIT);
    assert_true(pays(6, wrap - 3 * UNIT, 13, 6));
    assert_true(pays(6, wrap + 11 * UNIT, 13, 14));
    assert_true(pays(6, wrap + 13 * UNIT, 13, 2));
    dp_waiters_remove(6, entry);
}

TEST(a_child_has_empty_lists)
{
    assert_int_equal(dp_waiters_add(7, 14, 601 * UNIT), 1);
    dp_waiters_fork_child();
    assert_int_equal(dp_waiters_pay(7, 611 * UNIT, found), 0);
    assert_int_equal(dp_waiters_add(7, 15, 621 * UNIT), 1);
    dp_waiters_fork_child();
    assert_int_equal(dp_waiters_pay(7, 631 * UNIT, found), 0);
}

static const char places[1 << 20];

/* The slot of a lock is free as soon as its wait has ended: another lock takes it while the holder has not looked yet.
 */
TEST(a_holder_does_not_take_the_waiters_of_the_lock_that_has_its_slot_now)
{
    int64_t begin_ns = dp_clock_ns() - 100 * UNIT, end_ns = begin_ns + 200 * UNIT;
    int64_t owed_ns[DP_CONTENDED_KINDS] = {0};
    dp_contended_slot paid[DP_CONTENDED_KINDS] = {0};
    const char *lock = places, *other = places + 8;
    while (DELTAPROF_LOCK_SET(other) != DELTAPROF_LOCK_SET(lock))
        other += 8;
    assert_int_equal(dp_contended_init(), 0);
    struct dp_contended_place place = {lock, DELTAPROF_LOCK_READ,
                                       dp_contended_enter(lock, DELTAPROF_LOCK_READ, begin_ns)};
    dp_waiters_entry entry = dp_waiters_add(place.slot, 16, begin_ns);
    struct dp_pairing pairing;
    dp_pairing_begin(&pairing);
    dp_pairing_add(&pairing, DELTAPROF_LOCK_READ, &place, end_ns);
    assert_int_equal(pairing.at[0] >> 32, 16);

    assert_true(dp_contended_unlock(lock, owed_ns, paid) > 0);
    assert_int_equal(paid[DELTAPROF_LOCK_READ], place.slot);
    dp_waiters_remove(place.slot, entry);
    dp_contended_acquired(place.slot, begin_ns, &end_ns);
    struct dp_contended_place next = {other, DELTAPROF_LOCK_WRITE,
                                      dp_contended_enter(other, DELTAPROF_LOCK_WRITE, end_ns)};
    assert_int_equal(next.slot, place.slot);
    assert_true(dp_waiters_add(next.slot, 17, end_ns));
    dp_pairing_begin(&pairing);
    dp_pairing_add(&pairing, DELTAPROF_LOCK_READ, &place, end_ns + 100 * UNIT);
    assert_int_equal(pairing.at[0], 0);
    dp_pairing_add(&pairing, DELTAPROF_LOCK_WRITE, &next, end_ns + 100 * UNIT);
    assert_int_equal(pairing.at[0] >> 32, 17);
}

UNIT(NULL, NULL)
