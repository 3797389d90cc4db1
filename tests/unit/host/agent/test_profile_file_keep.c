/* SPDX-License-Identifier: MIT */
/* The key `keep`: which files of profiles are deleted, and unfinished files of processes that were killed. */
#include "profile_directory.h"

/* A process id that no process has: the kernel gives out none from 1 << 22 on. Each call returns another. */
static pid_t ended(void)
{
    static pid_t next = 1 << 22;
    return next++;
}

static void become(const char *program, pid_t pid, int64_t keep)
{
    char path[256];
    snprintf(path, sizeof path, "%s/out", top);
    assert_int_equal(dp_agent_files_init(&files, path, program, pid, keep), 0);
}

TEST_WITH(setup, teardown, keep_deletes_the_oldest_ticks)
{
    begin("out", 3);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(write_one("heap", "h"), 0);
        assert_int_equal(write_one("block", "b"), 0);
        assert_int_equal(dp_agent_files_end(&files), 2);
        assert_int_equal(count(), i < 3 ? 2 * (i + 1) : 6);
    }
    assert_true(exists("prog.42.0008.heap.pb.gz"));
    assert_true(exists("prog.42.0010.block.pb.gz"));
}

TEST_WITH(setup, teardown, keep_counts_files_of_an_earlier_process_with_this_pid)
{
    begin("out", 0);
    for (int i = 0; i < 9; i++)
        tick("x");
    make("prog.7.0001.heap.pb.gz");
    make("note.txt");
    begin("out", 2);
    tick("y");
    assert_int_equal(count(), 4); /* 0009, 0010 and the two other files */
    assert_true(exists("prog.42.0009.heap.pb.gz"));
    assert_true(exists("prog.42.0010.heap.pb.gz"));
    assert_true(exists("prog.7.0001.heap.pb.gz"));
}

TEST_WITH(setup, teardown, keep_bounds_the_directory_by_files_of_processes_that_ended)
{
    begin("out", 0);
    for (int i = 0; i < 8; i++) {
        become("short", ended(), 0);
        tick("x");
    }
    become("alive", getppid(), 0);
    tick("x");
    make("short.1.0001.heap.pb.gz"); /* without a stamp: it may belong to the user or to another program */
    make("note.txt");
    assert_int_equal(count(), 11);
    char alive[64];
    snprintf(alive, sizeof alive, "alive.%d.0001.heap.pb.gz", (int)getppid());
    begin("out", 3);
    tick("y");
    assert_int_equal(count(),
                     5); /* of ended processes only the newest file: with `alive` and prog 42 there are 3 ticks */
    assert_true(exists(alive) && exists("short.1.0001.heap.pb.gz") && exists("note.txt"));
    assert_true(exists("prog.42.0001.heap.pb.gz"));
}

TEST_WITH(setup, teardown, keep_counts_each_tick_once)
{
    begin("out", 0);
    for (int i = 0; i < 300; i++) {
        become("short", ended(), 0);
        assert_int_equal(write_one("heap", "x"), 0);
        assert_int_equal(write_one("mutex", "x"), 0);
        assert_int_equal(dp_agent_files_end(&files), 2);
    }
    begin("out", 290);
    tick("y");
    assert_int_equal(count(), 289 * 2 + 1); /* the oldest 11 ticks are gone, with both of their files */
}

TEST_WITH(setup, teardown, keep_deletes_no_file_of_another_process_of_this_name)
{
    begin("out", 2);
    tick("mine");
    struct dp_agent_files one = files;
    begin("out", 0); /* in another pid namespace */
    files.stamp = (struct dp_stamp){.pid_scope = 5, .process = 7};
    tick("theirs");
    files = one;
    for (int i = 0; i < 4; i++)
        tick("mine");
    holds("prog.42.0002.heap.pb.gz", "theirs");
    assert_int_equal(count(), 3);
}

TEST_WITH(setup, teardown, unfinished_files_of_killed_processes_are_deleted)
{
    begin("out", 0);
    become("killed", ended(), 0);
    struct dp_agent_file half = {.files = &files, .kind = DP_KIND_HEAP}, mine = half;
    assert_int_equal(dp_agent_file_write(&half, gzip_header, sizeof gzip_header - 1), 0);
    begin("out", 0);
    assert_int_equal(dp_agent_file_write(&mine, gzip_header, sizeof gzip_header - 1), 0);
    make(".killed.1.heap.1.tmp"); /* without a stamp: its owner is not known */
    tick("x");
    assert_false(exists(half.temporary));
    assert_true(exists(mine.temporary) && exists(".killed.1.heap.1.tmp"));
    close(half.fd);
    close(mine.fd);
}

TEST_WITH(setup, teardown, keep_0_keeps_all)
{
    begin("out", 0);
    for (int i = 0; i < 20; i++)
        tick("x");
    assert_int_equal(count(), 20);
}

UNIT(NULL, NULL)
