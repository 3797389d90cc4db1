/* SPDX-License-Identifier: MIT */
/* The directory of tables: it is made in a tmpfs, closed to other users, also if its path ends with slashes. */
#include "tmpfs/table_place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
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

static void a_missing_directory_is_made(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_directory_is_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
