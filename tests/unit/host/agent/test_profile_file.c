/* SPDX-License-Identifier: MIT */
/* Files of profiles: their names, permissions, numbers, and failures to write them. */
#include "profile_directory.h"

#include "base/process.h"

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>

TEST_WITH(setup, teardown, names_of_a_tick_share_one_seq)
{
    begin("out", 0);
    assert_int_equal(write_one("heap", "h1"), 0);
    assert_int_equal(write_one("mutex", "m1"), 0);
    assert_int_equal(dp_agent_files_end(&files), 2);
    tick("h2");
    holds("prog.42.0001.heap.pb.gz", "h1");
    holds("prog.42.0001.mutex.pb.gz", "m1");
    holds("prog.42.0002.heap.pb.gz", "h2");
    assert_int_equal(count(), 3);
}

TEST_WITH(setup, teardown, directory_and_files_are_private)
{
    begin("out", 0);
    tick("x");
    struct stat st;
    assert_int_equal(stat(files.dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(path_of("prog.42.0001.heap.pb.gz"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

TEST_WITH(setup, teardown, a_kind_with_no_byte_leaves_nothing)
{
    begin("out", 0);
    struct dp_agent_file file = {.files = &files, .kind = DP_KIND_HEAP};
    assert_int_equal(dp_agent_file_keep(&file), 0);
    dp_agent_file_drop(&file);
    assert_int_equal(dp_agent_files_end(&files), 0);
    assert_int_equal(count(), 0);
    tick("first");
    assert_true(exists("prog.42.0001.heap.pb.gz"));
}

TEST_WITH(setup, teardown, a_dropped_file_leaves_nothing_and_no_gap)
{
    begin("out", 0);
    struct dp_agent_file file = {.files = &files, .kind = DP_KIND_HEAP};
    assert_int_equal(dp_agent_file_write(&file, "half", 4), 0);
    assert_int_equal(count(), 1);
    dp_agent_file_drop(&file);
    assert_int_equal(count(), 0);
    assert_int_equal(dp_agent_files_end(&files), 0);
    tick("whole");
    assert_true(exists("prog.42.0001.heap.pb.gz"));
}

TEST_WITH(setup, teardown, an_unfinished_file_is_hidden_from_globs)
{
    begin("out", 0);
    struct dp_agent_file file = {.files = &files, .kind = DP_KIND_HEAP};
    assert_int_equal(dp_agent_file_write(&file, "half", 4), 0);
    assert_int_equal(file.temporary[0], '.');
    assert_null(strstr(file.temporary, ".pb.gz"));
    dp_agent_file_drop(&file);
    dp_agent_files_end(&files);
}

TEST_WITH(setup, teardown, seq_follows_the_highest_of_this_program_and_pid)
{
    begin("out", 0);
    make("prog.42.0007.block.pb.gz");
    make("prog.42.0003.heap.pb.gz");
    make("prog.42.0099.heap.pb"); /* not a profile of this process, nor are the next three */
    make("prog.42.99.heap.pb.gz");
    make("prog.421.0050.heap.pb.gz");
    make("xprog.42.0050.heap.pb.gz");
    tick("x");
    assert_true(exists("prog.42.0008.heap.pb.gz"));
    tick("y");
    assert_true(exists("prog.42.0009.heap.pb.gz"));
}

TEST_WITH(setup, teardown, seq_grows_beyond_four_digits)
{
    begin("out", 0);
    make("prog.42.9999.heap.pb.gz");
    tick("x");
    assert_true(exists("prog.42.10000.heap.pb.gz"));
    begin("out", 0);
    tick("y");
    assert_true(exists("prog.42.10001.heap.pb.gz"));
}

TEST_WITH(setup, teardown, no_file_is_ever_replaced)
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

TEST_WITH(setup, teardown, two_processes_of_one_name_share_a_directory)
{
    begin("out", 0);
    struct dp_agent_files one = files, other = files;
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

TEST_WITH(setup, teardown, a_link_in_the_way_is_not_followed)
{
    begin("out", 0);
    char target[128];
    snprintf(target, sizeof target, "%s/victim", top);
    assert_int_equal(symlink(target, path_of("prog.42.0001.heap.pb.gz")), 0);
    tick("x");
    assert_int_equal(access(target, F_OK), -1);
    holds("prog.42.0002.heap.pb.gz", "x");
}

TEST_WITH(setup, teardown, percents_are_expanded)
{
    struct utsname host;
    uname(&host);
    char want[256];
    snprintf(want, sizeof want, "/a%%b/prog-42@%s/c", host.nodename);
    assert_int_equal(dp_agent_files_init(&files, "/a%%b/%e-%p@%h/c", "prog", 42, 0), 0);
    assert_string_equal(files.dir, want);
}

TEST_WITH(setup, teardown, a_name_too_long_is_refused)
{
    char out[DP_CONFIG_TEXT];
    memset(out, 'a', sizeof out);
    for (size_t i = 0; i + 2 < sizeof out; i += 2)
        memcpy(out + i, "%e", 2);
    out[0] = '/';
    out[1] = '/';
    out[sizeof out - 1] = '\0';
    assert_int_equal(dp_agent_files_init(&files, out, "a-program-of-some-length", 42, 0), -ENAMETOOLONG);
}

TEST_WITH(setup, teardown, only_the_last_component_is_made)
{
    char path[256];
    snprintf(path, sizeof path, "%s/a/b", top);
    assert_int_equal(dp_agent_files_init(&files, path, "prog", 42, 0), 0);
    assert_int_equal(dp_agent_files_make_directory(&files), -ENOENT);
    assert_int_equal(write_one("heap", "x"), -ENOENT);
    assert_int_equal(dp_agent_files_end(&files), 0);
}

TEST_WITH(setup, teardown, a_directory_that_vanished_is_an_error_until_it_is_back)
{
    begin("out", 0);
    assert_int_equal(rmdir(files.dir), 0);
    assert_int_equal(write_one("heap", "x"), -ENOENT);
    assert_int_equal(dp_agent_files_end(&files), 0);
    assert_int_equal(mkdir(files.dir, 0700), 0);
    tick("x");
    assert_int_equal(rename(files.dir, path_of("../moved")), 0);
    assert_int_equal(write_one("heap", "y"), -ENOENT);
    dp_agent_files_end(&files);
}

TEST_WITH(setup, teardown, descriptors_stay_out_of_the_hosts_way)
{
    begin("out", 0);
    int lowest = dup(0);
    close(lowest);
    struct dp_agent_file file = {.files = &files, .kind = DP_KIND_HEAP};
    assert_int_equal(dp_agent_file_write(&file, "x", 1), 0);
    assert_true(file.fd >= 512);
    assert_true(files.dir_fd >= 512);
    assert_int_equal(dup(0), lowest);
    close(lowest);
    assert_int_equal(fcntl(file.fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(dp_agent_file_keep(&file), 0);
    dp_agent_files_end(&files);
}

/* Needs to be root with namespaces of its own: 77 if not. */
static int fill_a_small_disk(void)
{
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", files.dir, "tmpfs", 0, "size=64k"))
        return 77;
    static char big[256 << 10];
    struct dp_agent_file file = {.files = &files, .kind = DP_KIND_HEAP};
    if (dp_agent_file_write(&file, big, sizeof big) != -ENOSPC)
        return 1;
    dp_agent_file_drop(&file);
    if (dp_agent_files_end(&files) != 0 || count() != 0)
        return 2;
    if (write_one("heap", "small") || dp_agent_files_end(&files) != 1 || !exists("prog.42.0001.heap.pb.gz"))
        return 3;
    return 0;
}

TEST_WITH(setup, teardown, a_full_disk_leaves_nothing_half_written)
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

TEST_WITH(setup, teardown, program_names_are_made_fit_for_file_names)
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
    assert_string_equal(name, "test_profile_file");
    assert_true(dp_process_matches("test_p*"));
    assert_true(dp_process_matches("x|*"));
    assert_false(dp_process_matches("x|y"));
}

UNIT(NULL, NULL)
