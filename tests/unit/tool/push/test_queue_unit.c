/* SPDX-License-Identifier: MIT */
/* Which of the waiting files are sent as one profile: none, unless the pusher is behind by hours or by many files. */
#include "support/unit.h"
#include <stdlib.h>

#include "tool/push/queue.h"
#include "tool/push/send.h"

#define SECOND INT64_C(1000000000)

static char name[] = "server.7.0001.heap.pb.gz";

/* The number of files in the first unit, if n files are waiting that were written interval_s after each other. */
static size_t first_unit(size_t n, int64_t interval_s)
{
    struct dp_push_queue queue = {.n_pending = n};
    const struct dp_push_file *files[DP_PUSH_MOST_FILES + 1];
    for (size_t i = 0; i < n; i++) {
        struct dp_push_file *file = dp_vec_push(&queue.files);
        assert_non_null(file);
        *file = (struct dp_push_file){.name = name,
                                      .n_program = 6,
                                      .n_process = 8,
                                      .stamp = 9,
                                      .seq = i + 1,
                                      .mtime_ns = (1000000 + (int64_t)i * interval_s) * SECOND};
    }
    size_t n_files = dp_push_queue_unit(&queue, dp_push_queue_first(&queue), files, DP_PUSH_MOST_FILES);
    for (size_t i = 0; i < n_files; i++)
        assert_int_equal(files[i]->seq, i + 1);
    dp_vec_fini(&queue.files);
    return n_files;
}

TEST(each_file_is_a_point_of_its_own)
{
    assert_int_equal(first_unit(1, 0), 1);
    assert_int_equal(first_unit(8, 1), 1);
    assert_int_equal(first_unit(480, 15), 1); /* two hours but 15 s */
    assert_int_equal(first_unit(1999, 1), 1);
}

TEST(two_hours_of_files_are_joined)
{
    assert_int_equal(first_unit(481, 15), DP_PUSH_MOST_FILES);
    assert_int_equal(first_unit(121, 60), 6);   /* five minutes of them */
    assert_int_equal(first_unit(100, 3600), 1); /* further apart than that */
}

TEST(many_files_are_joined_before_their_process_deletes_them)
{
    assert_int_equal(first_unit(2000, 1), DP_PUSH_MOST_FILES);
}

UNIT(NULL, NULL)
