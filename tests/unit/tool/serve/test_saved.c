/* SPDX-License-Identifier: MIT */
/* The file of cursors: a later server has all that it says. */
#include "saved_family.h"

#include <errno.h>

enum { APPENDED_MOST = 4 << 20 };

/* ---- the state ---- */

TEST_WITH(begin, end, a_later_server_has_the_state)
{
    static const char wanted[] = "ended 4 begin 400 on heap wall\n"
                                 "all heap 20/2000\n"
                                 "all mutex 60/6000\n"
                                 "table a.1.1\n"
                                 "table a.1.1 heap of 1 30/3000!\n"
                                 "table b.2.1\n"
                                 "table b.2.1 heap of 0 40/4000!\n"
                                 "table b.2.1 mutex of 0 50/5000\n"
                                 ".heap.0 10-12 7/700@500\n"
                                 "a-b.mutex.7 10-12 sent 6/600@700 5/500@600\n";
    struct stat st;
    make_state();
    here.cursors.at.at[1]->used_ns -= INT64_C(30000000000);
    assert_int_equal(dp_serve_saved_write(&here, false), 1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(read_later(), 1);
    assert_string_equal(describe(&later), wanted);
    int64_t idle_ns = later.cursors.at.at[0]->used_ns - later.cursors.at.at[1]->used_ns;
    assert_true(idle_ns > INT64_C(20000000000) && idle_ns < INT64_C(40000000000));
    for (int round = 0; round < 2; round++) { /* nor does anything change in servers after it */
        assert_int_equal(dp_serve_saved_write(&later, round), 1);
        assert_int_equal(read_later(), 1);
        assert_string_equal(describe(&later), wanted);
    }
    for (size_t i = 0; i < 2; i++) /* the rows have their processes already */
        for (size_t k = 0; k < later.cursors.at.at[i]->pending.at.n; k++)
            assert_true(later.cursors.at.at[i]->pending.at.at[k]->has_pids);
}

/* Of a process that has ended since, and of several deltas of one table. */
TEST_WITH(begin, end, deltas_add_up_by_table)
{
    add_cursor("", DP_KIND_HEAP, 0, 500);
    assert_int_equal(dp_serve_saved_write(&here, false), 1);
    make_file("a.1.1", "", 0);
    for (int i = 0; i < 2; i++) {
        happen(1, "a.1.1", 3);
        happen(2, "gone", 10);
    }
    happen(3, "", 100); /* of no table */
    size_t n_bytes = here.saved.n_bytes;
    happen(1, "a.1.1", 0); /* memory in use alone is not appended */
    assert_int_equal(here.saved.n_bytes, n_bytes);
    assert_int_equal(read_later(), 1);
    assert_string_equal(describe(&later), "ended 1 begin 0 on heap\n"
                                          "all heap 20/2000\n"
                                          "table a.1.1\n"
                                          "table a.1.1 heap of 1 6/600\n"
                                          ".heap.0 10-12 26/2600!@500\n");
}

/* ---- what is appended ---- */

static struct dp_serve_cursor *cursor;
static struct dp_serve_deltas taken[2];

static void detach(unsigned i, bool acknowledges, bool went_back)
{
    if (went_back)
        assert_int_equal(dp_serve_cursor_put_back(cursor, &cursor->sent), 0);
    dp_serve_cursor_clear_sent(cursor);
    dp_serve_cursor_detach(cursor, &taken[i], 800 + 100 * i);
    cursor->seq++;
    dp_serve_saved_detach(&here, cursor, acknowledges, went_back);
}

static void settle(unsigned i, enum dp_serve_saved_end how)
{
    if (how == DP_SERVE_SAVED_BACK) {
        assert_int_equal(dp_serve_cursor_put_back(cursor, &taken[i]), 0);
    } else if (how == DP_SERVE_SAVED_SENT) {
        cursor->sent = taken[i];
        cursor->is_sent = true;
        memset(&taken[i], 0, sizeof taken[i]);
    }
    dp_serve_deltas_clear(&taken[i]);
    dp_serve_saved_settle(&here, cursor, cursor->seq, how);
}

/*
 * Steps of a cursor with 1 event pending, as letters: + 10 events more; d and D a reply without and with an answer to
 * come; b one that takes what was sent before, too; r, s, x it was received, sent, or came back; c the cursor begins
 * anew. In the text, ten times one stands before @.
 */
static const struct {
    const char *steps, *wanted;
} appended[] = {
    {"", "a.heap.0 10-12 1/100@500\n"},
    {"+", "a.heap.0 10-12 11/1100!@500\n"},
    {"dr", "a.heap.0 10-13 0/0@800\n"},
    {"dr+", "a.heap.0 10-13 10/1000!@800\n"},
    {"Ds", "a.heap.0 10-13 sent 0/0@800 1/100@500\n"},
    {"+Ds+", "a.heap.0 10-13 sent 10/1000!@800 11/1100!@500\n"},
    {"Dx+", "a.heap.0 10-13 11/1100!@500\n"},
    {"Ds+b", "a.heap.0 10-14 sent 0/0@800 11/1100!@500\n"},
    {"Ds+br", "a.heap.0 10-14 0/0@800\n"},
    {"Ds+Ds", "a.heap.0 10-14 sent 0/0@800 10/1000!@800\n"},
    {"Ds+dr", "a.heap.0 10-14 0/0@800\n"},
    {"d+", "a.heap.0 10-13 11/1100!@500\n"},                /* the reply may not have arrived */
    {"D+", "a.heap.0 10-13 sent 10/1000!@800 1/100@500\n"}, /* nor this one, whose answer will tell */
    {"drD", "a.heap.0 10-14 sent 0/0@800 0/0@800\n"},
    {"Ds+c+", "a.heap.0 10-13 10/1000!@950\n"},
    {"D+c+", "a.heap.0 10-13 10/1000!@950\n"},
    {"D+cs", "a.heap.0 10-13 0/0@950\n"}, /* a reply of the cursor before is not its own */
};

static void take_step(char step)
{
    if (step == '+') {
        happen(3, "c.3.1", 10);
    } else if (step == 'c') {
        dp_serve_deltas_clear(&cursor->pending);
        dp_serve_cursor_clear_sent(cursor);
        cursor->pending.from_ns = 950;
        dp_serve_saved_cursor(&here, cursor);
    } else if (strchr("dDb", step)) {
        detach(0, step != 'd', step == 'b');
    } else {
        settle(0, step == 'r' ? DP_SERVE_SAVED_RECEIVED : step == 's' ? DP_SERVE_SAVED_SENT : DP_SERVE_SAVED_BACK);
    }
}

TEST_WITH(begin, end, what_is_appended_is_done_again)
{
    make_file("c.3.1", "", 0);
    for (size_t i = 0; i < sizeof appended / sizeof *appended; i++) {
        clear(&here);
        cursor = add_cursor("a", DP_KIND_HEAP, 0, 500);
        add_to(cursor, 3, "f", 1);
        assert_int_equal(dp_serve_saved_write(&here, false), 1);
        size_t n_bytes = here.saved.n_bytes;
        unsigned n_flying = 0;
        for (const char *step = appended[i].steps; *step; step++) {
            take_step(*step);
            n_flying += strchr("dDb", *step) ? 1 : strchr("rsx", *step) ? -1 : 0;
        }
        assert_int_equal(here.saved.n_flying, n_flying);
        struct bytes all = read_file();
        assert_int_equal(here.saved.n_state, n_bytes);
        assert_int_equal(here.saved.n_bytes, all.all.n);
        dp_vec_fini(&all.all);
        assert_int_equal(read_later(), 1);
        assert_string_equal(cursor_text(), appended[i].wanted);
        dp_serve_deltas_clear(&taken[0]);
    }
}

/* Two replies at once, which end in either order, or not: what comes back stands before what came later. */
TEST_WITH(begin, end, replies_that_overlap_end_in_any_order)
{
    static const char *const wanted[] = {"a.heap.0 10-14 0/0@900\n", "a.heap.0 10-14 sent 0/0@900 0/0@800\n",
                                         "a.heap.0 10-14 1/100@500\n"};
    for (int how = 0; how < 3; how++) {
        clear(&here);
        cursor = add_cursor("a", DP_KIND_HEAP, 0, 500);
        add_to(cursor, 3, "f", 1);
        assert_int_equal(dp_serve_saved_write(&here, false), 1);
        detach(0, false, false);
        detach(1, how == 1, false);
        assert_int_equal(here.saved.n_flying, 2);
        if (how < 2) {
            dp_serve_saved_settle(&here, cursor, 13, DP_SERVE_SAVED_RECEIVED);
            dp_serve_saved_settle(&here, cursor, 99, DP_SERVE_SAVED_BACK); /* of no reply */
        }
        if (how < 1)
            dp_serve_saved_settle(&here, cursor, 14, DP_SERVE_SAVED_RECEIVED);
        assert_int_equal(read_later(), 1);
        assert_string_equal(cursor_text(), wanted[how]);
        dp_serve_deltas_clear(&taken[0]);
        dp_serve_deltas_clear(&taken[1]);
    }
}

/* ---- when the file is written ---- */

static ino_t inode(void)
{
    struct stat st;
    return stat(path, &st) ? 0 : st.st_ino;
}

TEST_WITH(begin, end, a_file_without_cursors_and_processes_ends_with_its_server)
{
    bool is_new;
    assert_int_equal(dp_serve_saved_write(&here, false), 1);
    assert_true(here.saved.is_open && inode()); /* before the first cursor */
    dp_serve_cursors_get(&here.cursors, "w", DP_KIND_HEAP, 0, true, &is_new);
    assert_int_equal(dp_serve_saved_write(&here, true), 0);
    assert_false(here.saved.is_open || inode());
    add_cursor("", DP_KIND_HEAP, 0, 500);
    assert_int_equal(dp_serve_saved_write(&here, true), 1);
    dp_serve_cursors_fini(&here.cursors);
    assert_int_equal(dp_serve_saved_write(&here, true), 0);
    here.workers.n_ended = 1;
    assert_int_equal(dp_serve_saved_write(&here, true), 1);
    here.workers.n_ended = 0;
    assert_int_equal(dp_serve_saved_write(&here, true), 0);
    assert_false(here.saved.is_open || inode());
    happen(3, "c.3.1", 10); /* nothing is appended */
    assert_false(inode());
}

TEST_WITH(begin, end, a_long_file_is_written_again)
{
    add_cursor("", DP_KIND_HEAP, 0, 500);
    assert_int_equal(dp_serve_saved_write(&here, false), 1);
    struct dp_serve_saved *saved = &here.saved;
    ino_t first = inode();
    saved->n_bytes = 3 * saved->n_state + APPENDED_MOST;
    dp_serve_saved_limit(&here);
    assert_int_equal(inode(), first);
    saved->n_bytes++;
    saved->n_flying = 1;
    dp_serve_saved_limit(&here);
    assert_int_equal(inode(), first);
    saved->n_flying = 0;
    dp_serve_saved_limit(&here);
    assert_int_not_equal(inode(), first);
    assert_int_equal(saved->n_bytes, saved->n_state);
    assert_int_equal(access("cursors.new", F_OK), -1);
}

/* The disk is full, as it were: the file is deleted, which is said once, and written again some time after. */
TEST_WITH(begin, end, a_file_that_lacks_a_delta_is_deleted)
{
    add_cursor("", DP_KIND_HEAP, 0, 500);
    struct dp_serve_saved *saved = &here.saved;
    assert_int_equal(dp_serve_saved_write(&here, false), 1);
    int fd = open("/dev/full", O_WRONLY);
    assert_int_equal(dup2(fd, saved->fd), saved->fd);
    close(fd);
    happen(3, "c.3.1", 10);
    assert_false(saved->is_open || inode());
    assert_int_equal(saved->err, -ENOSPC);
    assert_int_equal(here.cursors.at.at[0]->pending.at.n, 1);
    dp_serve_saved_limit(&here);
    assert_false(inode());
    saved->n_flying = 1;
    saved->retry_ns = 0;
    dp_serve_saved_limit(&here);
    assert_false(inode());
    saved->n_flying = 0;
    dp_serve_saved_limit(&here);
    assert_true(saved->is_open && inode());
    assert_int_equal(saved->err, 0);
}

UNIT(make_directory, remove_directory)
