/* SPDX-License-Identifier: MIT */
/*
 * tests/support/consumers.h - makes records with different stacks, and a heap consumer that reports their changes.
 */
#pragma once

#include "profiles.h"
#include "host/api/recording.h"
#include "host/report/settings.h"
#include "host/table/record.h"
#include "host/table/table.h"

#define PC(i) (UINT64_C(0x1000) + 16 * (i))

static struct said said;
static struct taken taken;

/* Makes a different record for each i, with a stack of two frames. */
static inline dp_record_id record_of(unsigned kind, unsigned i)
{
    dp_frame_id frames[] = {dp_frame_intern(PC(i)), dp_frame_intern(PC(9999))};
    struct dp_stack stack = {.hash = dp_stack_hash(frames, 2), .depth = 2, .frames = frames};
    dp_record_id id = 0;
    assert_true(dp_record_add(kind, 0, 0, &stack, 0, 0, &id));
    return id;
}

static inline void allocate(unsigned i, int64_t n)
{
    dp_table_add(DP_KIND_HEAP, record_of(DP_KIND_HEAP, i), n, 10 * n);
}

static inline void release(unsigned i, int64_t n)
{
    dp_table_add_free(DP_KIND_HEAP, record_of(DP_KIND_HEAP, i), n, 10 * n);
}

static inline struct dp_consumer *new_consumer(void)
{
    struct dp_consumer *c = dp_consumer_new(DELTAPROF_HEAP, NULL);
    assert_non_null(c);
    assert_int_equal(dp_consumer_skip(c), 0); /* leaves out the events of other tests */
    return c;
}

static inline void write_and_commit(struct dp_consumer *c)
{
    assert_int_equal(dp_consumer_write(c, 0, take, &taken, NULL), 0);
    assert_int_equal(dp_consumer_commit(c), 0);
    read_taken(&taken, &said);
}

static inline void values_are(unsigned i, int64_t n, int64_t inuse)
{
    const struct said_row *row = row_of(&said, PC(i));
    if (!n && !inuse) {
        assert_null(row);
        return;
    }
    assert_non_null(row);
    assert_int_equal(row->values[0], n);
    assert_int_equal(row->values[1], 10 * n);
    assert_int_equal(row->values[2], inuse);
    assert_int_equal(row->values[3], 10 * inuse);
}

/* A group's setup. */
static inline int records_begin(void **state)
{
    struct dp_config conf;
    dp_config_init(&conf);
    conf.symbolize = DP_SYMBOLIZE_NONE;
    return dp_record_init(&conf) || dp_report_init(&conf);
}
