/* SPDX-License-Identifier: MIT */
/* The lock that a record notes: that of the longest wait; whether there were others; in static storage, its frame. */
#include "support/unit.h"
#include <stdlib.h>

#include "host/api/recording.h"
#include "host/locks/lock_seen.h"
#include "host/report/settings.h"
#include "host/table/labels.h"
#include "host/table/record.h"

static long variable[2];
static uintptr_t blocks[2]; /* in no object */

/* A new record. */
static dp_record_id made(void)
{
    static uint32_t n;
    dp_frame_id frames[2] = {DP_FRAME_HAND_OVER, DP_FRAME_OTHER};
    dp_record_id id;
    struct dp_stack stack = {.depth = 1, .frames = frames};
    stack.hash = dp_stack_hash(frames, 1);
    assert_true(dp_record_intern(DP_KIND_BLOCK, ++n << DP_LABELS_LOCK_BITS, &stack, &id));
    assert_true(id);
    return id;
}

static int64_t word_of(dp_record_id id)
{
    int64_t word = dp_load_acquire(dp_table_word(DP_KIND_BLOCK, id));
    assert_in_range(word, 0, INT64_C(1) << 60);
    return word;
}

static void expect(dp_record_id id, uintptr_t lock, bool has_others)
{
    assert_int_equal(dp_lock_seen_address(word_of(id)), lock);
    assert_int_equal(!!(word_of(id) & DP_LOCK_SEEN_OTHERS), has_others);
}

TEST(the_lock_of_the_longest_wait_stays)
{
    dp_record_id id = made();
    expect(id, 0, false);
    dp_lock_seen_note(DP_KIND_BLOCK, id, blocks[0], 0);
    expect(id, blocks[0], false);
    dp_lock_seen_note(DP_KIND_BLOCK, id, blocks[0], 1000);
    expect(id, blocks[0], false);
    dp_lock_seen_note(DP_KIND_BLOCK, id, blocks[1], 10);
    expect(id, blocks[0], true);
    dp_lock_seen_note(DP_KIND_BLOCK, id, blocks[1], 5000);
    expect(id, blocks[1], true);
    dp_lock_seen_note(DP_KIND_BLOCK, id, blocks[0], 5001); /* no power of two longer */
    expect(id, blocks[1], true);
    dp_lock_seen_note(DP_KIND_BLOCK, id, blocks[0], INT64_MAX);
    expect(id, blocks[0], true);
}

TEST(a_variable_is_noted_by_its_frame)
{
    dp_record_id id = made();
    uintptr_t at = (uintptr_t)&variable[1];
    dp_lock_seen_note(DP_KIND_BLOCK, id, at, 10);
    dp_lock_seen_note(DP_KIND_BLOCK, id, at, 1000);
    expect(id, at, false);
    dp_frame_id frame = dp_lock_seen_frame(word_of(id));
    assert_int_equal(frame, dp_frame_intern_data(at));
    assert_int_equal(dp_frame_get(frame)->type, DP_FRAME_DATA);
    assert_int_not_equal(dp_frame_get(frame)->object, 0);
    assert_int_equal(dp_frame_find(at), 0); /* no frame of code */
    assert_int_equal(dp_frame_intern_data(blocks[0]), 0);
}

TEST(what_is_no_lock_is_not_noted)
{
    dp_record_id id = made();
    dp_lock_seen_note(DP_KIND_BLOCK, id, 0, 10);
    dp_lock_seen_note(DP_KIND_BLOCK, id, UINTPTR_MAX, 10);
    dp_lock_seen_note(DP_KIND_BLOCK, 0, blocks[0], 10); /* [overflow] */
    assert_int_equal(word_of(id), 0);
    assert_int_equal(word_of(0), 0);
}

/* As in damaged tables of another process. */
TEST(any_word_can_be_read)
{
    const int64_t words[] = {
        DP_LOCK_SEEN_IS_ID, INT64_C(1) << 60 | DP_LOCK_SEEN_IS_ID, DP_LOCK_SEEN_IS_ID | 1 << DP_LOCK_SEEN_SHIFT,
        (int64_t)dp_frames_count() << DP_LOCK_SEEN_SHIFT | DP_LOCK_SEEN_IS_ID, DP_LOCK_SEEN_LENGTH};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        assert_int_equal(dp_lock_seen_frame(words[i]), 0);
        assert_int_equal(dp_lock_seen_address(words[i]), 0);
    }
}

int main(void)
{
    struct dp_config conf;
    dp_config_init(&conf);
    for (int i = 0; i < 2; i++)
        blocks[i] = (uintptr_t)malloc(64);
    return dp_record_init(&conf) || dp_report_init(&conf) || run_unit(NULL, NULL);
}
