/* SPDX-License-Identifier: MIT */
/* When a sender tries again, and when it gives up on files that are too large for the memory. */
#include "support/unit.h"

#include "tool/push/send.c"

#include <unistd.h>

static struct dp_push_sender sender;

/* The pause after a failure, in ns: between the two values, by the time that the call itself took. */
static void pause_once(int64_t retry_after_s, int64_t *least, int64_t *most)
{
    int64_t before = dp_clock_ns();
    pause_after(&sender, retry_after_s);
    *most = sender.not_before_ns - before;
    *least = sender.not_before_ns - dp_clock_ns();
}

TEST(pauses_double_up_to_a_minute)
{
    sender = (struct dp_push_sender){.n_failures = 0};
    for (unsigned i = 0; i < 12; i++) {
        int64_t least, most, whole = i < 8 ? FIRST_PAUSE << i : LONGEST_PAUSE;
        pause_once(0, &least, &most);
        assert_true(most >= whole / 2 && least <= whole);
        assert_int_equal(sender.n_failures, i + 1);
    }
}

TEST(a_receiver_may_ask_for_a_longer_pause_of_up_to_ten_minutes)
{
    static const struct {
        int64_t asked_s, whole_s;
    } cases[] = {{7, 7}, {600, 600}, {601, 600}, {86400, 600}, {INT64_MAX / SECOND, 600}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t least, most;
        sender = (struct dp_push_sender){.n_failures = 0};
        pause_once(cases[i].asked_s, &least, &most);
        assert_true(least <= cases[i].whole_s * SECOND && most >= cases[i].whole_s * SECOND);
    }
    int64_t least, most;
    sender = (struct dp_push_sender){.n_failures = 8};
    pause_once(1, &least, &most); /* the own pause is longer */
    assert_true(most >= LONGEST_PAUSE / 2);
}

TEST(memory_may_be_short_nine_times_in_a_row)
{
    char dir[] = "/tmp/deltaprof-pauses-XXXXXX", key[DP_PUSH_KEY_BYTES];
    char name[] = "server.7.0001.heap.pb.gz";
    assert_non_null(mkdtemp(dir));
    struct dp_push_queue queue = {.path = dir, .dir_fd = open(dir, O_RDONLY | O_DIRECTORY)};
    struct dp_push_file file = {.name = name, .stamp = 9};
    const struct dp_push_file *files[] = {&file};
    const char *keys[] = {key};
    assert_int_equal(dp_push_journal_open(&queue.journal, queue.dir_fd, "http://127.0.0.1:4040/push"), 0);
    dp_push_journal_key(key, file.stamp, file.name);
    assert_int_equal(dp_push_journal_begin(&queue.journal, keys, 1), 0);
    sender = (struct dp_push_sender){.n_failures = 0};
    for (unsigned i = 1; i < MOST_SHORTAGES; i++) {
        assert_int_equal(give_up(&sender, &queue, files, 1, -ENOMEM, NULL), 0);
        assert_int_equal(sender.n_failures, i); /* after a pause each time */
    }
    assert_int_equal(queue.journal.counts[DP_PUSH_REFUSED], 0);
    assert_int_equal(give_up(&sender, &queue, files, 1, -ENOMEM, NULL), 1);
    assert_int_equal(queue.journal.counts[DP_PUSH_REFUSED], 1);
    assert_int_equal(sender.n_shortages, 0);
    unlinkat(queue.dir_fd, queue.journal.name, 0);
    dp_push_journal_close(&queue.journal);
    close(queue.dir_fd);
    rmdir(dir);
}

UNIT(NULL, NULL)
