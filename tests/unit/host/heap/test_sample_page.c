/* SPDX-License-Identifier: MIT */
/* test_page.c - which samples lie at a page boundary, and how a runtime's heap gets them from the C heap. */
#include "support/unit.h"

#include "host/api/recording.h"
#include "support/totals.h"

#include <deltaprof/interpose.h>

/* Blocks are numbers here: no memory stands behind them. Each is large enough to be a sample almost surely. */
#define SIZE   ((size_t)64 << 20)
#define PAGE   ((void *)0x7f0000002000)
#define MAPPED ((void *)0x7f0000003010)

static struct deltaprof_gate gate;

/* The heap 8 shares the gate. */
static int start(void **state)
{
    struct dp_config conf;
    deltaprof_gate_open(&gate, DELTAPROF_GIVES_PAGES | DELTAPROF_IS_LEAF);
    if (deltaprof_gate_share(8) != &gate)
        return -1;
    dp_config_init(&conf);
    int err = dp_record_init(&conf);
    dp_record_tune(&conf, true);
    return err;
}

TEST(samples_of_the_c_heap_want_a_page)
{
    struct deltaprof_sample sample;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    int n_wanted = 0;
    for (int i = 0; i < 50; i++) {
        deltaprof_sample_begin(&sample, 0, SIZE);
        n_wanted += deltaprof_gate_wants_page(&gate, &sample);
        deltaprof_sample_end(&sample, NULL, &site);
        deltaprof_sample_begin(&sample, 7, SIZE);
        assert_false(deltaprof_gate_wants_page(&gate, &sample));
        deltaprof_sample_end(&sample, NULL, &site);
    }
    assert_true(n_wanted > 45);
}

static int n_pages(size_t n_bytes, int n)
{
    struct deltaprof_sample sample;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    int n_wanted = 0;
    for (int i = 0; i < n; i++) {
        deltaprof_sample_begin(&sample, 0, n_bytes);
        n_wanted += deltaprof_gate_wants_page(&gate, &sample);
        deltaprof_sample_end(&sample, NULL, &site);
    }
    return n_wanted;
}

TEST(a_thread_whose_samples_are_close_together_wants_no_page)
{
    enum { LARGE = 8192, SMALL = 100, RATE = 512 << 10 };
    n_pages(LARGE, 400 * RATE / LARGE); /* it learns from its samples: there are about 400 */
    assert_int_equal(n_pages(LARGE, 50 * RATE / LARGE), 0);
    n_pages(SMALL, 50 * RATE / SMALL);
    assert_true(n_pages(SMALL, 50 * RATE / SMALL) > 10);
}

/* Whether an event inside another one gets a page. */
static __attribute__((noinline)) bool nested_gets_page(uint32_t heap)
{
    struct deltaprof_sample sample;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    deltaprof_sample_begin(&sample, heap, 100);
    bool gets = heap ? deltaprof_sample_ask_page(&sample) : deltaprof_gate_wants_page(&gate, &sample);
    deltaprof_sample_end(&sample, NULL, &site);
    return gets;
}

TEST(its_samples_ask_the_c_heap_for_one_block_at_a_page)
{
    struct deltaprof_sample sample;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    int n_asked = 0;
    for (int i = 0; i < 100; i++) {
        deltaprof_sample_begin(&sample, 8, SIZE);
        bool asked = deltaprof_sample_ask_page(&sample);
        n_asked += asked;
        assert_false(nested_gets_page(8)); /* another allocator has wrapped this one */
        if (i % 2) {
            assert_int_equal(nested_gets_page(0), asked);
            assert_false(nested_gets_page(0));
        }
        deltaprof_sample_end(&sample, NULL, &site);
        deltaprof_sample_begin(&sample, 7, SIZE);
        assert_false(deltaprof_sample_ask_page(&sample));
        assert_false(nested_gets_page(0));
        deltaprof_sample_end(&sample, NULL, &site);
    }
    assert_true(n_asked > 90);
}

/* An event of the C heap inside another one, which gives it the block `ptr`. */
static __attribute__((noinline)) void nested_gives(const void *ptr)
{
    struct deltaprof_sample sample;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    deltaprof_sample_begin(&sample, 0, 100);
    assert_true(deltaprof_gate_wants_page(&gate, &sample));
    deltaprof_sample_end(&sample, ptr, &site);
}

/* An event of the heap 8 that is a sample, and whose block is `ptr`. given: what the C heap returns inside; NULL:
 * nothing. */
static __attribute__((noinline)) void sample_of_8(const void *given, const void *ptr)
{
    struct deltaprof_sample sample;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    for (bool asked = false; !asked;) {
        deltaprof_sample_begin(&sample, 8, SIZE);
        asked = deltaprof_sample_ask_page(&sample);
        if (asked && given)
            nested_gives(given);
        assert_int_equal(deltaprof_sample_needs_free(&sample, ptr), asked && given != ptr);
        assert_false(deltaprof_sample_needs_free(&sample, NULL));
        deltaprof_sample_end(&sample, asked ? ptr : NULL, &site);
    }
}

TEST(a_block_that_the_c_heap_gave_is_freed_there)
{
    struct dp_counts before = totals();
    sample_of_8(PAGE, PAGE);
    deltaprof_free(8, PAGE);
    assert_int_equal(totals().free_n, before.free_n);
    deltaprof_free(0, PAGE);
    assert_int_equal(totals().free_n - before.free_n, totals().n - before.n);
    sample_of_8(MAPPED, PAGE); /* the block begins elsewhere: another allocator put a header before it */
    sample_of_8(NULL, MAPPED);
    deltaprof_free(0, PAGE);
    deltaprof_free(0, MAPPED);
    assert_true(totals().free_n - before.free_n < totals().n - before.n);
    deltaprof_free(8, PAGE);
    deltaprof_free(8, MAPPED);
    assert_int_equal(totals().free_n - before.free_n, totals().n - before.n);
}

TEST(realloc_finds_it_by_the_heap_that_allocated_it)
{
    struct deltaprof_sample sample;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    struct dp_counts before = totals();
    sample_of_8(PAGE, PAGE);
    deltaprof_realloc_begin(&sample, 7, PAGE, 0);
    deltaprof_realloc_end(&sample, true, NULL, &site);
    assert_int_equal(totals().free_n, before.free_n);
    deltaprof_realloc_begin(&sample, 8, PAGE, 0);
    deltaprof_realloc_end(&sample, false, NULL, &site);
    assert_int_equal(totals().free_n, before.free_n);
    deltaprof_realloc_begin(&sample, 8, PAGE, 0);
    deltaprof_realloc_end(&sample, true, NULL, &site);
    assert_int_equal(totals().free_n - before.free_n, totals().n - before.n);
}

TEST(frees_must_be_reported_where_the_event_may_begin_late)
{
    struct deltaprof_sample sample;
    struct deltaprof_site site = DELTAPROF_SITE_CALLER();
    int64_t kept = deltaprof_guard_enter();
    deltaprof_sample_begin(&sample, 8, SIZE);
    assert_true(deltaprof_sample_needs_free(&sample, PAGE));
    deltaprof_sample_end(&sample, PAGE, &site);
    deltaprof_guard_exit(kept);
}

UNIT(start, NULL)
