/* SPDX-License-Identifier: MIT */
/* A file of cursors that is damaged, or that no server wrote, is refused as a whole. */
#include "saved_family.h"

#include "base/hash.h"
#include "tool/serve/saved_part.h"

#include <errno.h>

static void assert_refused(const struct bytes *file, size_t n_bytes)
{
    make_file("cursors", file->all.at, n_bytes);
    assert_int_equal(read_later(), -EBADMSG);
    assert_string_equal(describe(&later), "ended 0 begin 0 on\n");
    assert_int_equal(later.workers.interval_ns, 77);
    assert_string_equal(later.workers.directory, directory);
    assert_int_equal(access(path, F_OK), -1);
}

TEST_WITH(begin, end, a_file_that_lacks_a_part_is_refused)
{
    make_state();
    assert_int_equal(dp_serve_saved_write(&here, false), 1);
    struct bytes file = read_file();
    for (size_t n = 0; n < file.all.n; n += n % 64 == 63 ? 5 : 1)
        assert_refused(&file, n);
    dp_vec_fini(&file.all);
}

/* A server that is killed leaves the last part incomplete: it had no effect. */
TEST_WITH(begin, end, an_incomplete_last_part_had_no_effect)
{
    add_cursor("a", DP_KIND_HEAP, 0, 500);
    assert_int_equal(dp_serve_saved_write(&here, false), 1);
    size_t n_state = here.saved.n_state, n_first;
    happen(3, "c.3.1", 10);
    n_first = here.saved.n_bytes;
    happen(3, "c.3.1", 100);
    struct bytes file = read_file();
    for (size_t n = n_state; n <= file.all.n; n++) {
        make_file("cursors", file.all.at, n);
        assert_int_equal(read_later(), 1);
        assert_string_equal(cursor_text(), n < n_first      ? "a.heap.0 10-12 0/0@500\n"
                                           : n < file.all.n ? "a.heap.0 10-12 10/1000!@500\n"
                                                            : "a.heap.0 10-12 110/11000!@500\n");
    }
    dp_vec_fini(&file.all);
}

TEST_WITH(begin, end, a_changed_byte_is_refused)
{
    make_state();
    assert_int_equal(dp_serve_saved_write(&here, true), 1);
    struct bytes file = read_file();
    for (size_t at = 0; at < file.all.n; at += at % 64 == 63 ? 3 : 1) {
        file.all.at[at] ^= 1;
        assert_refused(&file, file.all.n);
        file.all.at[at] ^= 1;
    }
    assert_int_equal(keep(&file, "x", 1), 0);
    assert_refused(&file, file.all.n);
    dp_vec_fini(&file.all);
}

/* Writes a file of parts that have no profiles. Its hashes are right. */
static struct bytes file_of(const struct dp_serve_saved_part *parts, size_t n)
{
    struct bytes file = {{0}};
    for (size_t i = 0; i < n; i++) {
        struct dp_serve_saved_part part = parts[i];
        part.check = dp_hash_bytes((const char *)&part + sizeof part.check, sizeof part - sizeof part.check, 0);
        assert_int_equal(keep(&file, &part, sizeof part), 0);
    }
    return file;
}

#define HEAD                                                       \
    {                                                              \
        .type = DP_SERVE_SAVED_HEAD, .name = DP_SERVE_SAVED_MAGIC, \
    }
#define PART(which, ...)                            \
    {                                               \
        .type = DP_SERVE_SAVED_##which, __VA_ARGS__ \
    }
#define NAME_64 "0123456789012345678901234567890123456789012345678901234567890123"

TEST_WITH(begin, end, parts_that_no_server_writes_are_refused)
{
    static const struct {
        struct dp_serve_saved_part parts[6];
        unsigned n;
        int err;
    } rows[] = {
        {{HEAD, PART(END)}, 2, 1},
        {{HEAD}, 1, -EBADMSG},
        {{PART(END), HEAD}, 2, -EBADMSG},
        {{HEAD, HEAD, PART(END)}, 3, -EBADMSG},
        {{PART(HEAD, .name = "deltaprof-cursors 2"), PART(END)}, 2, -EBADMSG},
        {{HEAD, PART(CURSOR), PART(PENDING), PART(SENDING), PART(END)}, 5, 1},
        {{HEAD, PART(CURSOR), PART(SENDING), PART(END)}, 4, -EBADMSG},
        {{HEAD, PART(CURSOR), PART(PENDING), PART(END)}, 4, -EBADMSG},
        {{HEAD, PART(CURSOR), PART(END)}, 3, -EBADMSG},
        {{HEAD, PART(PENDING), PART(SENDING), PART(END)}, 4, -EBADMSG},
        {{HEAD, PART(CURSOR), PART(PENDING, .kind = 1), PART(SENDING, .kind = 1), PART(END)}, 5, -EBADMSG},
        {{HEAD, PART(CURSOR), PART(PENDING), PART(SENDING, .kind = 1), PART(END)}, 5, -EBADMSG},
        {{HEAD, PART(END, .flags = DP_SERVE_SAVED_IS_LAST)}, 2, 1},
        {{HEAD, PART(END, .flags = DP_SERVE_SAVED_IS_LAST), PART(DETACH)}, 3, -EBADMSG},
        {{HEAD, PART(END), PART(DETACH), PART(SETTLE)}, 4, 1},
        {{HEAD, PART(END), {.type = DP_SERVE_SAVED_TYPES}}, 3, -EBADMSG},
        {{HEAD, PART(END), PART(DETACH, .kind = DP_KIND_TABLES - 1)}, 3, 1},
        {{HEAD, PART(END), PART(DETACH, .kind = DP_KIND_TABLES)}, 3, -EBADMSG},
        {{HEAD, PART(END), PART(DETACH, .pid = -1)}, 3, -EBADMSG},
        {{HEAD, PART(END), PART(DETACH, .name = NAME_64)}, 3, 1},
        {{HEAD, PART(END), PART(DETACH, .name = NAME_64 "4")}, 3, -EBADMSG},
        {{HEAD, PART(END), PART(DETACH, .name = NAME_64 "45678901")}, 3, -EBADMSG}, /* without its end */
        {{HEAD, PART(PROCESS, .name = "a.1.1"), PART(END)}, 3, 1},
        {{HEAD, PART(PROCESS, .name = "../a.1.1"), PART(END)}, 3, -EBADMSG},
        {{HEAD, PART(TOTAL, .name = "x/a.1.1"), PART(END)}, 3, -EBADMSG},
        {{HEAD, PART(END), PART(DELTA, .name = "/a.1.1")}, 3, -EBADMSG},
    };
    assert_int_equal(DP_CURSOR_NAME_MAX, 64);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bytes file = file_of(rows[i].parts, rows[i].n);
        make_file("cursors", file.all.at, file.all.n);
        if (read_later() != rows[i].err)
            fail_msg("row %zu", i);
        dp_vec_fini(&file.all);
    }
}

TEST_WITH(begin, end, the_file_must_be_a_young_regular_one)
{
    struct timespec times[2] = {{0}};
    assert_int_equal(read_later(), 0);
    for (int age_s = 86300; age_s <= 86500; age_s += 200) {
        clear(&here);
        add_cursor("", DP_KIND_HEAP, 0, 500);
        assert_int_equal(dp_serve_saved_write(&here, false), 1);
        times[0].tv_sec = times[1].tv_sec = time(NULL) - age_s;
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        assert_int_equal(read_later(), age_s < 86400);
        assert_int_equal(access(path, F_OK), age_s < 86400 ? 0 : -1);
    }
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(read_later(), -EBADMSG);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("a.1.1", path), 0);
    assert_int_equal(read_later(), -ELOOP);
    assert_int_equal(dp_serve_saved_read(&later, "/dev/shm/deltaprof-test-none"), 0);
}

UNIT(make_directory, remove_directory)
