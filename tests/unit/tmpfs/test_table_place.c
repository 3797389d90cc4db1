/* SPDX-License-Identifier: MIT */
/* The directory of tables: it is made in a tmpfs, closed to other users, also if its path ends with slashes. */
#include "tmpfs/table_place.h"

#include "support/unit.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static void assert_made(const char *above, const char *name)
{
    char path[200];
    const char *what;
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", above, name);
    assert_int_equal(dp_tables_place_open(path, false, &what), -ENOENT);
    int fd = dp_tables_place_open(path, true, &what);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    close(fd);
    assert_int_equal(rmdir(path), 0);
}

TEST(a_missing_directory_is_made)
{
    char above[] = "/dev/shm/deltaprof-test-XXXXXX", path[200];
    const char *what;
    struct statfs fs;
    if (statfs("/dev/shm", &fs) || fs.f_type != TMPFS_MAGIC)
        skip();
    assert_non_null(mkdtemp(above));
    assert_made(above, "a");
    assert_made(above, "b/");
    assert_made(above, "c///");
    snprintf(path, sizeof path, "%s/missing/d/", above);
    assert_int_equal(dp_tables_place_open(path, true, &what), -ENOENT);
    assert_int_equal(rmdir(above), 0);
}

static void make_older(const char *path, int age_s)
{
    struct timespec times[2] = {{.tv_sec = time(NULL) - age_s}, {.tv_sec = time(NULL) - age_s}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

TEST(the_file_of_the_lock_says_where_files_go)
{
    static const char *const texts[][2] = {{"/out/a", "/out/a"}, {"/b", "/b"}, {"", ""}, {"no/path", ""}, {"/c", "/c"}};
    char above[] = "/dev/shm/deltaprof-test-XXXXXX", path[200], out[PATH_MAX], *longest = calloc(1, PATH_MAX + 1);
    const char *what;
    struct stat st;
    if (!mkdtemp(above))
        skip();
    snprintf(path, sizeof path, "%s/" DP_TABLES_SERVE_FILE, above);
    int dir = dp_tables_place_open(above, false, &what);
    assert_true(dir >= 0);
    assert_false(dp_tables_place_is_served(above));
    dp_tables_place_files(dir, out);
    assert_string_equal(out, "");
    assert_int_equal(symlink("elsewhere", path), 0);
    assert_int_equal(dp_tables_place_lock(dir), -ELOOP);
    assert_int_equal(unlink(path), 0);

    int lock = dp_tables_place_lock(dir);
    assert_true(lock >= 0);
    assert_int_equal(dp_tables_place_lock(dir), -EAGAIN);
    assert_true(dp_tables_place_is_served(above) && dp_tables_place_wants_table(above));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(dp_tables_place_set_files(lock, texts[i][0]), 0);
        dp_tables_place_files(dir, out);
        assert_string_equal(out, texts[i][1]);
    }
    memset(longest, '/', PATH_MAX);
    assert_int_equal(dp_tables_place_set_files(lock, longest), -ENAMETOOLONG);
    longest[PATH_MAX - 1] = '\0';
    assert_int_equal(dp_tables_place_set_files(lock, longest), 0);
    dp_tables_place_files(dir, out);
    assert_string_equal(out, longest);
    make_older(path, 5000);
    assert_int_equal(dp_tables_place_set_files(lock, longest), 0); /* the same: it is touched */
    assert_true(!stat(path, &st) && st.st_mtim.tv_sec > time(NULL) - 4000);

    close(lock);
    assert_false(dp_tables_place_is_served(above));
    assert_true(dp_tables_place_wants_table(above));
    make_older(path, 3500);
    assert_true(dp_tables_place_wants_table(above));
    make_older(path, 3601);
    assert_false(dp_tables_place_wants_table(above));
    assert_int_equal(truncate(path, 0), 0); /* and new, but without a text */
    assert_false(dp_tables_place_wants_table(above));
    close(dir);
    unlink(path);
    assert_int_equal(rmdir(above), 0);
    free(longest);
}

/* Notes of a library: words, with the name and the id as they lie behind a note's three lengths. */
TEST(a_build_id_is_found_among_notes)
{
    enum { GNU = 0x554e47 };
    static const struct {
        uint32_t words[16];
        size_t n_bytes, n;
        uint8_t first;
    } rows[] = {
        {{4, 4, 3, GNU, 0x44332211}, 20, 4, 0x11},
        {{4, 4, 3, GNU, 0x44332211}, 19, 0, 0},
        {{4, 4, 3, GNU, 0x44332211}, 11, 0, 0},
        {{4, 4, 1, GNU, 0x99, 4, 4, 3, GNU, 0x44332211}, 40, 4, 0x11},  /* behind an ABI tag */
        {{5, 5, 1, 1, 2, 3, 4, 4, 4, 3, GNU, 0x44332211}, 48, 4, 0x11}, /* name and build-id are padded to 4 bytes */
        {{4, 4, 3, GNU + 1, 0x44332211}, 20, 0, 0},
        {{3, 4, 3, GNU, 0x44332211}, 20, 0, 0},
        {{4, 32, 3, GNU, 0x44332211}, 48, 32, 0x11},
        {{4, 33, 3, GNU, 0x44332211}, 52, 0, 0},
        {{4, UINT32_MAX, 1, GNU, 0, 4, 4, 3, GNU, 1}, 40, 0, 0},
        {{0}, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t id[32] = {0};
        assert_int_equal(dp_tables_build_id(rows[i].words, rows[i].n_bytes, id), rows[i].n);
        assert_int_equal(id[0], rows[i].first);
    }
}

UNIT(NULL, NULL)
