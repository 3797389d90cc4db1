/* SPDX-License-Identifier: MIT */
#include "support/unit.h"

#include "host/thread/gate.h"
#include "host/api/recording.h"
#include "host/thread/thread.h"
#include "support/totals.h"

/* Blocks are numbers here: no memory stands behind them. Each is large enough to be a sample almost surely. */
#define SIZE      ((size_t)64 << 20)
#define PAGE      ((void *)0x7f0000002000)
#define MAPPED    ((void *)0x7f0000003010)
#define ELSEWHERE ((void *)0x7f0000004560)
#define BESIDE    ((void *)0x7f0000005670)
#define NEVER     ((void *)0x600000001230)
#define CROWDED   ((void *)0x7f0000006000)
#define MARKED    ((void *)0x7f0000007890)

static struct deltaprof_gate gate, second;
static struct dp_config conf;

static void tune(int64_t rate)
{
    conf.heap_rate = rate;
    dp_record_tune(&conf, true);
}

static void allocate(uint32_t heap, void *ptr)
{
    struct dp_counts before = totals();
    for (int i = 0; i < 100 && totals().n == before.n; i++)
        deltaprof_alloc(heap, ptr, SIZE);
    assert_true(totals().n > before.n);
}

static bool passes(const void *ptr)
{
    return deltaprof_gate_passes(&gate, ptr);
}

static int start(void **state)
{
    deltaprof_gate_open(&gate, DELTAPROF_GIVES_PAGES | DELTAPROF_IS_LEAF);
    dp_config_init(&conf);
    int err = dp_record_init(&conf);
    tune(512 << 10);
    return err;
}

TEST(only_page_boundaries_are_asked_about)
{
    assert_false(passes(PAGE));
    assert_false(passes(MAPPED));
    assert_false(passes(NULL));
    assert_true(passes(ELSEWHERE));
    assert_true(passes((void *)0x7f0000002020));
    assert_true(passes((void *)0x7f0000002008));
    allocate(0, PAGE);
    allocate(0, MAPPED);
    assert_true(passes(ELSEWHERE));
    deltaprof_free(0, PAGE);
    deltaprof_free(0, MAPPED);
    assert_true(passes(ELSEWHERE));
}

TEST(every_free_asks_while_a_sample_lies_elsewhere)
{
    struct dp_counts before = totals();
    allocate(0, ELSEWHERE);
    allocate(0, BESIDE);
    assert_false(passes(ELSEWHERE));
    assert_false(passes(BESIDE));
    deltaprof_free(0, ELSEWHERE);
    assert_false(passes(BESIDE));
    deltaprof_free(0, ELSEWHERE); /* unknown by now */
    assert_false(passes(BESIDE));
    deltaprof_free(0, BESIDE);
    assert_true(passes(BESIDE));
    struct dp_counts after = totals();
    assert_int_equal(after.n - before.n, after.free_n - before.free_n);
}

static bool page_passes(const void *ptr)
{
    return deltaprof_gate_page_passes(&gate, ptr);
}

TEST(a_page_without_a_sample_is_not_looked_up)
{
    const char *neighbour = (const char *)ELSEWHERE + 0x100, *cyclic = (const char *)ELSEWHERE + (256 << 20);
    assert_true(page_passes(ELSEWHERE));
    allocate(0, ELSEWHERE);
    allocate(0, (void *)neighbour);
    allocate(7, PAGE);
    assert_false(page_passes(ELSEWHERE) || page_passes(neighbour) || page_passes(cyclic) || page_passes(PAGE));
    assert_true(page_passes(BESIDE));
    assert_true(page_passes(MAPPED));
    deltaprof_free(0, ELSEWHERE);
    deltaprof_free(0, ELSEWHERE); /* unknown by now */
    assert_false(page_passes(neighbour));
    deltaprof_free(0, neighbour);
    assert_true(page_passes(neighbour) && page_passes(cyclic));
    assert_false(page_passes(PAGE));
    deltaprof_free(7, PAGE);
    assert_true(page_passes(PAGE));
}

TEST(a_page_of_many_samples_is_looked_up_for_ever)
{
    enum { MANY_BLOCKS = 256, STEP = 16 };
    char *page = (char *)CROWDED;
    for (int i = 0; i < MANY_BLOCKS; i++)
        allocate(0, page + i * STEP);
    for (int i = 0; i < MANY_BLOCKS; i++) {
        assert_false(page_passes(page + i * STEP));
        deltaprof_free(0, page + i * STEP);
    }
    assert_false(page_passes(page));
    assert_true(passes(ELSEWHERE));
}

TEST(a_marked_page_is_looked_up_for_ever)
{
    assert_true(page_passes(MARKED));
    deltaprof_filter_mark(MARKED, 1);
    allocate(0, MARKED);
    deltaprof_free(0, MARKED);
    assert_false(page_passes(MARKED));
    assert_true(deltaprof_gate_may_be_live(&gate, MARKED));
}

TEST(an_address_that_comes_twice_counts_once)
{
    allocate(0, ELSEWHERE);
    allocate(0, ELSEWHERE); /* freed where no hook saw it */
    assert_false(passes(ELSEWHERE));
    deltaprof_free(0, ELSEWHERE);
    assert_true(passes(ELSEWHERE));
}

TEST(other_heaps_have_no_gate)
{
    allocate(7, ELSEWHERE);
    assert_true(passes(ELSEWHERE));
    deltaprof_free(7, ELSEWHERE);
    assert_true(passes(ELSEWHERE));
}

TEST(realloc_keeps_count)
{
    struct deltaprof_sample sample;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    allocate(0, ELSEWHERE);
    deltaprof_realloc_begin(&sample, 0, ELSEWHERE, 0);
    deltaprof_realloc_end(&sample, false, NULL, &site);
    assert_false(passes(ELSEWHERE));
    deltaprof_realloc_begin(&sample, 0, ELSEWHERE, 0);
    assert_false(passes(ELSEWHERE));
    deltaprof_realloc_end(&sample, true, NULL, &site);
    assert_true(passes(ELSEWHERE));
}

TEST(a_heap_that_shares_the_gate_counts_as_the_c_heap)
{
    assert_false(deltaprof_gate_passes(deltaprof_gate_share(0), ELSEWHERE));
    assert_ptr_equal(deltaprof_gate_share(8), &gate);
    assert_ptr_equal(deltaprof_gate_share(8), &gate);
    const struct deltaprof_gate *other = deltaprof_gate_share(9);
    assert_ptr_not_equal(other, &gate);
    assert_false(deltaprof_gate_passes(other, ELSEWHERE));
    assert_int_equal(other->countdown_offset, gate.countdown_offset);
    allocate(8, PAGE);
    allocate(7, ELSEWHERE);
    assert_true(passes(ELSEWHERE));
    allocate(8, ELSEWHERE);
    assert_false(passes(BESIDE));
    allocate(0, ELSEWHERE);
    deltaprof_free(8, ELSEWHERE);
    assert_false(passes(BESIDE));
    deltaprof_free(0, ELSEWHERE);
    assert_true(passes(BESIDE));
    deltaprof_free(8, PAGE);
    deltaprof_free(7, ELSEWHERE);
}

TEST(hooks_pass_by_while_nothing_is_recorded)
{
    assert_true(deltaprof_gate_heap_on(&gate) && deltaprof_gate_locks_on(&gate));
    tune(0);
    assert_false(deltaprof_gate_heap_on(&gate));
    dp_thread_gate_keep_polling(true); /* a thread of ours is wanted, which only an allocation may make */
    assert_true(deltaprof_gate_heap_on(&gate));
    dp_thread_gate_keep_polling(false);
    assert_false(deltaprof_gate_heap_on(&gate));
    dp_record_tune(&conf, false);
    assert_false(deltaprof_gate_locks_on(&gate));
    tune(512 << 10);
    assert_true(deltaprof_gate_heap_on(&gate) && deltaprof_gate_locks_on(&gate));
}

TEST(the_filter_is_not_asked_while_every_event_is_a_sample)
{
    assert_false(deltaprof_gate_may_be_live(&second, NEVER));
    second.heap_on = DELTAPROF_GATE_EVERY;
    assert_true(deltaprof_gate_may_be_live(&second, NEVER));
    second.heap_on = 0;
    assert_int_equal(gate.heap_on & DELTAPROF_GATE_EVERY, 0);
}

TEST(before_an_allocator_that_enters_no_hook_nothing_is_guarded)
{
    int64_t kept = deltaprof_guard_enter();
    assert_true(deltaprof_gate_is_leaf(&gate));
    assert_true(deltaprof_gate_count(&gate, 1)); /* guarded: the library decides */
    assert_true(deltaprof_is_guarded());
    deltaprof_gate_restore(&gate, 1000);
    assert_false(deltaprof_gate_count(&gate, 100));
    assert_false(deltaprof_gate_count(&gate, 0)); /* counts as 1 */
    assert_int_equal(deltaprof_thread.countdown, 899);
    assert_true(deltaprof_gate_count(&gate, 899));
    assert_int_equal(deltaprof_thread.countdown, 899);
    deltaprof_guard_exit(kept);
    tune(0);
    assert_false(deltaprof_gate_is_leaf(&gate) || deltaprof_gate_heap_on(&gate));
    tune(512 << 10);
    assert_true(deltaprof_gate_is_leaf(&gate));
    assert_false(deltaprof_gate_is_leaf(&second));
}

TEST(a_countdown_is_reached_by_its_offset)
{
    int64_t kept = deltaprof_guard_enter(), rest;
    deltaprof_gate_restore(&gate, 1000);
    assert_int_equal(deltaprof_thread.countdown, 1000);
    assert_false(deltaprof_gate_subtract(&gate, 0, &rest));
    assert_int_equal(rest, 999);
    assert_true(deltaprof_is_guarded());
    deltaprof_gate_restore(&gate, rest);
    assert_true(deltaprof_gate_subtract(&gate, 1000, &rest));
    assert_int_equal(deltaprof_thread.countdown, 999);
    deltaprof_guard_exit(kept);
}

TEST(a_second_gate_asks_for_everything)
{
    deltaprof_gate_open(&second, DELTAPROF_GIVES_PAGES);
    assert_true(deltaprof_gate_heap_on(&second) && deltaprof_gate_locks_on(&second));
    assert_false(deltaprof_gate_passes(&second, ELSEWHERE));
}

/* Last: it is for good. */
TEST(a_rate_that_gives_no_pages_shuts_the_gate)
{
    struct deltaprof_sample sample;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    allocate(0, ELSEWHERE);
    assert_true(page_passes(BESIDE));
    tune((256 << 10) - 1);
    assert_false(passes(ELSEWHERE));
    assert_false(page_passes(BESIDE));
    deltaprof_free(0, ELSEWHERE);
    assert_false(deltaprof_gate_may_be_live(&gate, NEVER));
    tune(1);
    assert_true(deltaprof_gate_may_be_live(&gate, NEVER));
    tune(512 << 10);
    assert_false(deltaprof_gate_may_be_live(&gate, NEVER));
    assert_false(passes(ELSEWHERE) || page_passes(BESIDE));
    deltaprof_sample_begin(&sample, 0, SIZE);
    assert_false(deltaprof_gate_wants_page(&gate, &sample));
    deltaprof_sample_end(&sample, NULL, &site);
}

UNIT(start, NULL)
