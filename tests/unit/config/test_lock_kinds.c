/* SPDX-License-Identifier: MIT */
/* Bad files are refused first, because a process reads its table once. */
#include "support/unit.h"

#include "config/lock_kinds.h"
#include "support/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], path[96];
static struct dp_config_error error;

static int in_a_directory(void **state)
{
    if (scratch_directory(dir, sizeof dir, "lock-kinds"))
        return -1;
    snprintf(path, sizeof path, "%s/table", dir);
    return 0;
}

static int remove_it(void **state)
{
    unlink(path);
    return rmdir(dir);
}

static int read_bytes(const char *bytes, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    memset(&error, 0, sizeof error);
    return dp_lock_kinds_read(path, &error);
}

static int read_lines(const char *lines)
{
    return read_bytes(lines, strlen(lines));
}

TEST(a_file_that_cannot_be_read_is_named)
{
    assert_int_equal(dp_lock_kinds_read("/no/such", &error), -ENOENT);
    assert_string_equal(error.line, "lock_names=/no/such: ENOENT");
    assert_int_equal(dp_lock_kinds_read(dir, &error), -EISDIR);
}

/* `run` would read its lines, and leave none for the program. */
TEST(a_pipe_is_refused)
{
    assert_int_equal(mkfifo(path, 0600), 0);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "a mutex\n", 8), 8);
    assert_int_equal(dp_lock_kinds_read(path, &error), -ESPIPE);
    assert_non_null(strstr(error.line, ": ESPIPE"));
    char byte;
    assert_int_equal(read(fd, &byte, 1), 1); /* its lines are still there */
    close(fd);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(dp_lock_kinds_read("/dev/null", &error), -ESPIPE);
}

TEST(bad_lines_are_listed)
{
    assert_int_equal(read_lines("a mutex\nb\n\n# c d\nc  mutexes\n mutex\n"), -EINVAL);
    assert_non_null(strstr(error.line, "bad lines (2 5 6): "));
    assert_non_null(strstr(error.line, path));
    assert_int_equal(read_lines("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"), -EINVAL);
    assert_non_null(strstr(error.line, "bad lines (1 2 3 4 5 6 7 8 and 2 more): "));
    assert_int_equal(dp_lock_kinds_find("a"), DP_LOCK_NONE);
}

TEST(a_nul_ends_a_line_without_a_kind)
{
    assert_int_equal(read_bytes("a mutex\nb\0 mutex\n", 18), -EINVAL);
    assert_non_null(strstr(error.line, "bad lines (2): "));
}

TEST(a_table_that_is_too_large_is_refused)
{
    static char lines[16384];
    for (size_t i = 0; i < sizeof lines; i += 4)
        memcpy(lines + i, "#..\n", 4);
    assert_int_equal(read_bytes(lines, sizeof lines), -EFBIG);
    size_t n = 0;
    for (int i = 0; i < 257; i++)
        n += (size_t)sprintf(lines + n, "f%d sem\n", i);
    assert_int_equal(read_bytes(lines, n), -EINVAL);
    assert_non_null(strstr(error.line, "bad lines (257): "));
}

TEST(the_first_line_that_matches_counts)
{
    assert_int_equal(read_lines("\r\n# comment\n  my::Lock::lock*|unlock \t mutex\r\nmy::*  park\n"
                                "f(anonymous namespace)::g rwlock\nh<int, long> once\nc cond\ns sem\nb barrier\n"
                                "last pass"),
                     0);
    assert_int_equal(dp_lock_kinds_find("my::Lock::lock_slow"), DP_LOCK_MUTEX);
    assert_int_equal(dp_lock_kinds_find("unlock"), DP_LOCK_MUTEX);
    assert_int_equal(dp_lock_kinds_find("unlocks"), DP_LOCK_NONE);
    assert_int_equal(dp_lock_kinds_find("my::Queue::pop"), DP_LOCK_PARK);
    assert_int_equal(dp_lock_kinds_find("f(anonymous namespace)::g"), DP_LOCK_RWLOCK);
    assert_int_equal(dp_lock_kinds_find("h<int, long>"), DP_LOCK_ONCE);
    assert_int_equal(dp_lock_kinds_find("c"), DP_LOCK_COND);
    assert_int_equal(dp_lock_kinds_find("s"), DP_LOCK_SEM);
    assert_int_equal(dp_lock_kinds_find("b"), DP_LOCK_BARRIER);
    assert_int_equal(dp_lock_kinds_find("last"), DP_LOCK_PASS);
    assert_int_equal(dp_lock_kinds_find("# comment"), DP_LOCK_NONE);
    assert_int_equal(read_lines("unlock sem\n"), 0); /* a later start keeps the table */
    assert_int_equal(dp_lock_kinds_find("unlock"), DP_LOCK_MUTEX);
}

UNIT(in_a_directory, remove_it)
