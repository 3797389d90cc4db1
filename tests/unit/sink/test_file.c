/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/text.h"
#include "sink/file.h"
#include "support/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

static char top[64];
static struct dp_files files;

static int setup(void **state)
{
    return scratch_directory(top, sizeof top, "file");
}

static int teardown(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", top);
    return system(command);
}

/* A process of PID 42 that is called prog, in top/out. */
static void begin(const char *out, int64_t keep)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", top, out);
    assert_int_equal(dp_files_init(&files, path, "prog", 42, keep), 0);
    assert_int_equal(dp_files_make_directory(&files), 0);
}

static const char gzip_header[] = "\x1f\x8b\x08\0\0\0\0\0\0\xff";

static int write_one(const char *kind, const char *text)
{
    struct dp_file file = {.files = &files, .kind = kind};
    int err = dp_file_write(&file, gzip_header, sizeof gzip_header - 1);
    if (!err)
        err = dp_file_write(&file, text, strlen(text));
    if (err) {
        dp_file_drop(&file);
        return err;
    }
    return dp_file_keep(&file);
}

static void tick(const char *text)
{
    assert_int_equal(write_one("heap", text), 0);
    assert_int_equal(dp_files_end(&files), 1);
}

static const char *path_of(const char *name)
{
    static char path[2048];
    snprintf(path, sizeof path, "%s/%s", files.dir, name);
    return path;
}

static bool exists(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

static void holds(const char *name, const char *text)
{
    char got[64] = "";
    FILE *f = fopen(path_of(name), "r");
    if (!f)
        fail_msg("%s is not there", name);
    size_t n = fread(got, 1, sizeof got - 1, f), n_header = n ? DP_STAMP_HEADER_BYTES : 0;
    assert_int_equal(n, n_header + strlen(text));
    fclose(f);
    assert_string_equal(got + n_header, text);
}

static unsigned count(void)
{
    DIR *dir = opendir(files.dir);
    unsigned n = 0;
    for (struct dirent *e; (e = readdir(dir));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return n;
}

static void make(const char *name)
{
    int fd = open(path_of(name), O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void names_of_a_tick_share_one_seq(void **state)
{
    begin("out", 0);
    assert_int_equal(write_one("heap", "h1"), 0);
    assert_int_equal(write_one("mutex", "m1"), 0);
    assert_int_equal(dp_files_end(&files), 2);
    tick("h2");
    holds("prog.42.0001.heap.pb.gz", "h1");
    holds("prog.42.0001.mutex.pb.gz", "m1");
    holds("prog.42.0002.heap.pb.gz", "h2");
    assert_int_equal(count(), 3);
}

static void directory_and_files_are_private(void **state)
{
    begin("out", 0);
    tick("x");
    struct stat st;
    assert_int_equal(stat(files.dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(path_of("prog.42.0001.heap.pb.gz"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

static void a_kind_with_no_byte_leaves_nothing(void **state)
{
    begin("out", 0);
    struct dp_file file = {.files = &files, .kind = "heap"};
    assert_int_equal(dp_file_keep(&file), 0);
    dp_file_drop(&file);
    assert_int_equal(dp_files_end(&files), 0);
    assert_int_equal(count(), 0);
    tick("first");
    assert_true(exists("prog.42.0001.heap.pb.gz"));
}

static void a_dropped_file_leaves_nothing_and_no_gap(void **state)
{
    begin("out", 0);
    struct dp_file file = {.files = &files, .kind = "heap"};
    assert_int_equal(dp_file_write(&file, "half", 4), 0);
    assert_int_equal(count(), 1);
    dp_file_drop(&file);
    assert_int_equal(count(), 0);
    assert_int_equal(dp_files_end(&files), 0);
    tick("whole");
    assert_true(exists("prog.42.0001.heap.pb.gz"));
}

static void an_unfinished_file_is_hidden_from_globs(void **state)
{
    begin("out", 0);
    struct dp_file file = {.files = &files, .kind = "heap"};
    assert_int_equal(dp_file_write(&file, "half", 4), 0);
    assert_int_equal(file.temporary[0], '.');
    assert_null(strstr(file.temporary, ".pb.gz"));
    dp_file_drop(&file);
    dp_files_end(&files);
}

static void seq_follows_the_highest_of_this_program_and_pid(void **state)
{
    begin("out", 0);
    make("prog.42.0007.block.pb.gz");
    make("prog.42.0003.heap.pb.gz");
    make("prog.42.0099.heap.pb"); /* not one of ours */
    make("prog.42.99.heap.pb.gz");
    make("prog.421.0050.heap.pb.gz");
    make("xprog.42.0050.heap.pb.gz");
    tick("x");
    assert_true(exists("prog.42.0008.heap.pb.gz"));
    tick("y");
    assert_true(exists("prog.42.0009.heap.pb.gz"));
}

static void seq_grows_beyond_four_digits(void **state)
{
    begin("out", 0);
    make("prog.42.9999.heap.pb.gz");
    tick("x");
    assert_true(exists("prog.42.10000.heap.pb.gz"));
    begin("out", 0);
    tick("y");
    assert_true(exists("prog.42.10001.heap.pb.gz"));
}

static void no_file_is_ever_replaced(void **state)
{
    begin("out", 0);
    tick("mine");
    make("prog.42.0002.heap.pb.gz"); /* another process of the same program and PID, in another container */
    make("prog.42.0005.mutex.pb.gz");
    tick("second");
    holds("prog.42.0002.heap.pb.gz", "");
    holds("prog.42.0006.heap.pb.gz", "second");
    tick("third");
    holds("prog.42.0007.heap.pb.gz", "third");
}

static void two_processes_of_one_name_share_a_directory(void **state)
{
    begin("out", 0);
    struct dp_files one = files, other = files;
    for (int i = 0; i < 50; i++) {
        files = one;
        tick("one");
        one = files;
        files = other;
        tick("other");
        other = files;
    }
    assert_int_equal(count(), 100);
}

static void a_link_in_the_way_is_not_followed(void **state)
{
    begin("out", 0);
    char target[128];
    snprintf(target, sizeof target, "%s/victim", top);
    assert_int_equal(symlink(target, path_of("prog.42.0001.heap.pb.gz")), 0);
    tick("x");
    assert_int_equal(access(target, F_OK), -1);
    holds("prog.42.0002.heap.pb.gz", "x");
}

static void keep_deletes_the_oldest_ticks(void **state)
{
    begin("out", 3);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(write_one("heap", "h"), 0);
        assert_int_equal(write_one("block", "b"), 0);
        assert_int_equal(dp_files_end(&files), 2);
        assert_int_equal(count(), i < 3 ? 2 * (i + 1) : 6);
    }
    assert_true(exists("prog.42.0008.heap.pb.gz"));
    assert_true(exists("prog.42.0010.block.pb.gz"));
}

static void keep_counts_what_an_earlier_process_of_this_pid_left(void **state)
{
    begin("out", 0);
    for (int i = 0; i < 9; i++)
        tick("x");
    make("prog.7.0001.heap.pb.gz");
    make("note.txt");
    begin("out", 2);
    tick("y");
    assert_int_equal(count(), 4); /* 0009, 0010 and the two that are not ours */
    assert_true(exists("prog.42.0009.heap.pb.gz"));
    assert_true(exists("prog.42.0010.heap.pb.gz"));
    assert_true(exists("prog.7.0001.heap.pb.gz"));
}

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
    assert_int_equal(dp_files_init(&files, path, program, pid, keep), 0);
}

static void keep_bounds_the_directory_by_files_of_processes_that_ended(void **state)
{
    begin("out", 0);
    for (int i = 0; i < 8; i++) {
        become("short", ended(), 0);
        tick("x");
    }
    become("alive", getppid(), 0);
    tick("x");
    make("short.1.0001.heap.pb.gz"); /* a user's, or another program's: it has no stamp */
    make("note.txt");
    assert_int_equal(count(), 11);
    char alive[64];
    snprintf(alive, sizeof alive, "alive.%d.0001.heap.pb.gz", (int)getppid());
    begin("out", 3);
    tick("y");
    assert_int_equal(count(), 5); /* of those that ended only the newest: with `alive` and our own they are 3 */
    assert_true(exists(alive) && exists("short.1.0001.heap.pb.gz") && exists("note.txt"));
    assert_true(exists("prog.42.0001.heap.pb.gz"));
}

static void keep_counts_each_tick_once(void **state)
{
    begin("out", 0);
    for (int i = 0; i < 300; i++) {
        become("short", ended(), 0);
        assert_int_equal(write_one("heap", "x"), 0);
        assert_int_equal(write_one("mutex", "x"), 0);
        assert_int_equal(dp_files_end(&files), 2);
    }
    begin("out", 290);
    tick("y");
    assert_int_equal(count(), 289 * 2 + 1); /* the oldest 11 ticks are gone, with both of their files */
}

static void keep_deletes_no_file_of_another_process_of_this_name(void **state)
{
    begin("out", 2);
    tick("mine");
    struct dp_files one = files;
    begin("out", 0); /* in another pid namespace */
    files.stamp = (struct dp_stamp){.place = 5, .process = 7};
    tick("theirs");
    files = one;
    for (int i = 0; i < 4; i++)
        tick("mine");
    holds("prog.42.0002.heap.pb.gz", "theirs");
    assert_int_equal(count(), 3);
}

static void what_a_killed_process_left_half_written_is_swept(void **state)
{
    begin("out", 0);
    become("killed", ended(), 0);
    struct dp_file half = {.files = &files, .kind = "heap"}, mine = half;
    assert_int_equal(dp_file_write(&half, gzip_header, sizeof gzip_header - 1), 0);
    begin("out", 0);
    assert_int_equal(dp_file_write(&mine, gzip_header, sizeof gzip_header - 1), 0);
    make(".killed.1.heap.1.tmp"); /* without a stamp it may be anybody's */
    tick("x");
    assert_false(exists(half.temporary));
    assert_true(exists(mine.temporary) && exists(".killed.1.heap.1.tmp"));
    close(half.fd);
    close(mine.fd);
}

static void keep_0_keeps_all(void **state)
{
    begin("out", 0);
    for (int i = 0; i < 20; i++)
        tick("x");
    assert_int_equal(count(), 20);
}

static void percents_are_expanded(void **state)
{
    struct utsname host;
    uname(&host);
    char want[256];
    snprintf(want, sizeof want, "/a%%b/prog-42@%s/c", host.nodename);
    assert_int_equal(dp_files_init(&files, "/a%%b/%e-%p@%h/c", "prog", 42, 0), 0);
    assert_string_equal(files.dir, want);
}

static void a_name_too_long_is_refused(void **state)
{
    char out[DP_CONFIG_TEXT];
    memset(out, 'a', sizeof out);
    for (size_t i = 0; i + 2 < sizeof out; i += 2)
        memcpy(out + i, "%e", 2);
    out[0] = '/';
    out[1] = '/';
    out[sizeof out - 1] = '\0';
    assert_int_equal(dp_files_init(&files, out, "a-program-of-some-length", 42, 0), -ENAMETOOLONG);
}

static void only_the_last_component_is_made(void **state)
{
    char path[256];
    snprintf(path, sizeof path, "%s/a/b", top);
    assert_int_equal(dp_files_init(&files, path, "prog", 42, 0), 0);
    assert_int_equal(dp_files_make_directory(&files), -ENOENT);
    assert_int_equal(write_one("heap", "x"), -ENOENT);
    assert_int_equal(dp_files_end(&files), 0);
}

static void a_directory_that_vanished_is_an_error_until_it_is_back(void **state)
{
    begin("out", 0);
    assert_int_equal(rmdir(files.dir), 0);
    assert_int_equal(write_one("heap", "x"), -ENOENT);
    assert_int_equal(dp_files_end(&files), 0);
    assert_int_equal(mkdir(files.dir, 0700), 0);
    tick("x");
    assert_int_equal(rename(files.dir, path_of("../moved")), 0);
    assert_int_equal(write_one("heap", "y"), -ENOENT);
    dp_files_end(&files);
}

static void descriptors_stay_out_of_the_hosts_way(void **state)
{
    begin("out", 0);
    int lowest = dup(0);
    close(lowest);
    struct dp_file file = {.files = &files, .kind = "heap"};
    assert_int_equal(dp_file_write(&file, "x", 1), 0);
    assert_true(file.fd >= 512);
    assert_true(files.dir_fd >= 512);
    assert_int_equal(dup(0), lowest);
    close(lowest);
    assert_int_equal(fcntl(file.fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(dp_file_keep(&file), 0);
    dp_files_end(&files);
}

/* Needs to be root with namespaces of its own: 77 if not. */
static int fill_a_small_disk(void)
{
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", files.dir, "tmpfs", 0, "size=64k"))
        return 77;
    static char big[256 << 10];
    struct dp_file file = {.files = &files, .kind = "heap"};
    if (dp_file_write(&file, big, sizeof big) != -ENOSPC)
        return 1;
    dp_file_drop(&file);
    if (dp_files_end(&files) != 0 || count() != 0)
        return 2;
    if (write_one("heap", "small") || dp_files_end(&files) != 1 || !exists("prog.42.0001.heap.pb.gz"))
        return 3;
    return 0;
}

static void a_full_disk_leaves_nothing_half_written(void **state)
{
    begin("out", 0);
    pid_t child = fork();
    if (child == 0)
        _exit(fill_a_small_disk());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void program_names_are_made_fit_for_file_names(void **state)
{
    char name[DP_PROGRAM_TEXT];
    dp_process_fit_name(name, sizeof name, "redis-server");
    assert_string_equal(name, "redis-server");
    dp_process_fit_name(name, sizeof name, "a b/c\n%e\xc3\xa9");
    assert_string_equal(name, "a_b_c__e__");
    dp_process_fit_name(name, sizeof name, "..");
    assert_string_equal(name, "_.");
    dp_process_fit_name(name, 4, "python3.11");
    assert_string_equal(name, "pyt");
    dp_process_program(name);
    assert_string_equal(name, "test_file");
    assert_true(dp_process_matches("test_f*"));
    assert_true(dp_process_matches("x|*"));
    assert_false(dp_process_matches("x|y"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_of_a_tick_share_one_seq),
        TEST(directory_and_files_are_private),
        TEST(a_kind_with_no_byte_leaves_nothing),
        TEST(a_dropped_file_leaves_nothing_and_no_gap),
        TEST(an_unfinished_file_is_hidden_from_globs),
        TEST(seq_follows_the_highest_of_this_program_and_pid),
        TEST(seq_grows_beyond_four_digits),
        TEST(no_file_is_ever_replaced),
        TEST(two_processes_of_one_name_share_a_directory),
        TEST(a_link_in_the_way_is_not_followed),
        TEST(keep_deletes_the_oldest_ticks),
        TEST(keep_counts_what_an_earlier_process_of_this_pid_left),
        TEST(keep_bounds_the_directory_by_files_of_processes_that_ended),
        TEST(keep_counts_each_tick_once),
        TEST(keep_deletes_no_file_of_another_process_of_this_name),
        TEST(what_a_killed_process_left_half_written_is_swept),
        TEST(keep_0_keeps_all),
        TEST(percents_are_expanded),
        TEST(a_name_too_long_is_refused),
        TEST(only_the_last_component_is_made),
        TEST(a_directory_that_vanished_is_an_error_until_it_is_back),
        TEST(descriptors_stay_out_of_the_hosts_way),
        TEST(a_full_disk_leaves_nothing_half_written),
        TEST(program_names_are_made_fit_for_file_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
