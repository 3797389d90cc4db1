/* SPDX-License-Identifier: MIT */
#include "support/unit.h"

#include "base/log.h"
#include "support/scratch.h"
#include "support/compat.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int saved_stderr;
static char top[48], path[sizeof top + 8], text[8192];

/* fd 2 becomes a file of ours. */
static int setup(void **state)
{
    if (scratch_directory(top, sizeof top, "log"))
        return -1;
    snprintf(path, sizeof path, "%s/err", top);
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    saved_stderr = dup(2);
    dup2(fd, 2);
    close(fd);
    dp_log_init("stderr");
    return 0;
}

static int teardown(void **state)
{
    dup2(saved_stderr, 2);
    close(saved_stderr);
    unlink(path);
    rmdir(top);
    dp_log_to(NULL, NULL);
    return 0;
}

static const char *written(const char *name)
{
    FILE *f = fopen(name, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = '\0';
    if (f)
        fclose(f);
    return text;
}

static const char *line(const char *rest)
{
    static char whole[512];
    snprintf(whole, sizeof whole, "deltaprof[%d]: %s\n", (int)getpid(), rest);
    return whole;
}

TEST_WITH(setup, teardown, a_line_names_us_our_pid_and_the_errno)
{
    errno = ENOSPC;
    dp_log(DP_LOG_ERROR, "cannot write %s: %m; %d left, %zu, %llu", "/x", -3, (size_t)4, 5ull);
    assert_int_equal(errno, ENOSPC);
    assert_string_equal(written(path), line("cannot write /x: ENOSPC; -3 left, 4, 5"));
}

TEST_WITH(setup, teardown, info_is_said_only_when_asked_for)
{
    dp_log(DP_LOG_INFO, "quiet");
    assert_string_equal(written(path), "");
    dp_log_init("info");
    assert_true(dp_log_wants_info());
    dp_log(DP_LOG_INFO, "loud");
    assert_string_equal(written(path), line("loud"));
}

TEST_WITH(setup, teardown, none_says_nothing)
{
    dp_log_init("none");
    dp_log(DP_LOG_ERROR, "x");
    assert_string_equal(written(path), "");
}

TEST_WITH(setup, teardown, fd_2_is_left_alone_once_it_is_another_file)
{
    char other[sizeof path];
    snprintf(other, sizeof other, "%s/other", top);
    int fd = open(other, O_CREAT | O_RDWR, 0600), first = dup(2);
    dup2(fd, 2);
    dp_log(DP_LOG_ERROR, "not for you");
    assert_string_equal(written(other), "");
    dup2(first, 2);
    dp_log(DP_LOG_ERROR, "back");
    assert_string_equal(written(path), line("back"));
    close(2);
    dp_log(DP_LOG_ERROR, "closed");
    dup2(first, 2);
    close(first);
    close(fd);
    unlink(other);
    assert_string_equal(written(path), line("back"));
}

TEST_WITH(setup, teardown, a_line_is_one_line_whatever_a_name_holds)
{
    dp_log(DP_LOG_ERROR, "%s", "a\nb\tc\x1b[0m");
    assert_string_equal(written(path), line("a?b?c?[0m"));
}

TEST_WITH(setup, teardown, a_long_line_is_cut_and_still_ends)
{
    static char big[4000];
    memset(big, 'x', sizeof big - 1);
    dp_log(DP_LOG_ERROR, "%s", big);
    const char *got = written(path);
    assert_true(strlen(got) > 1000 && strlen(got) < 2000);
    assert_int_equal(got[strlen(got) - 1], '\n');
}

TEST_WITH(setup, teardown, a_cause_is_said_once_until_it_changes)
{
    struct dp_log_cause cause = {0};
    assert_false(dp_log_once(&cause, 0, "well"));
    assert_true(dp_log_once(&cause, ENOSPC, "bad %m"));
    assert_false(dp_log_once(&cause, ENOSPC, "bad %m"));
    assert_true(dp_log_once(&cause, EACCES, "bad %m"));
    assert_true(dp_log_once(&cause, 0, "well again"));
    assert_false(dp_log_once(&cause, 0, "well again"));
    const char *got = written(path);
    assert_non_null(strstr(got, "bad ENOSPC\n"));
    assert_non_null(strstr(got, "bad EACCES\n"));
    assert_non_null(strstr(got, "well again\n"));
    assert_null(strstr(got, ": well\n"));
}

TEST_WITH(setup, teardown, mistakes_are_said_once_and_a_few_at_most)
{
    static struct dp_log_bound bound;
    for (int i = 0; i < 1000; i++)
        dp_log_bounded(&bound, "no such key");
    assert_string_equal(written(path), line("no such key"));
    for (int i = 0; i < 1000; i++)
        dp_log_bounded(&bound, "no such key %d", i % 100);
    unsigned n = 0;
    for (const char *at = written(path); (at = strchr(at, '\n')); at++)
        n++;
    assert_int_equal(n, DP_LOG_BOUND);
    assert_non_null(strstr(text, "no such key 14; more lines of this kind are not logged\n"));
}

TEST_WITH(setup, teardown, a_file_is_appended_to_and_no_descriptor_is_kept)
{
    char file[80];
    snprintf(file, sizeof file, "%s.log", path);
    dp_log_init(file);
    int lowest = dup(0);
    close(lowest);
    dp_log(DP_LOG_ERROR, "one");
    dp_log(DP_LOG_ERROR, "two");
    int next = dup(0);
    close(next);
    assert_int_equal(next, lowest);
    char want[256];
    snprintf(want, sizeof want, "deltaprof[%d]: one\ndeltaprof[%d]: two\n", (int)getpid(), (int)getpid());
    assert_string_equal(written(file), want);
    struct stat st;
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    unlink(file);
    assert_string_equal(written(path), "");
}

TEST_WITH(setup, teardown, a_fifo_that_nobody_reads_stops_nobody)
{
    char fifo[80];
    snprintf(fifo, sizeof fifo, "%s.fifo", path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    dp_log_init(fifo);
    dp_log(DP_LOG_ERROR, "x");
    unlink(fifo);

    int ends[2], full = 0;
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    while (write(ends[1], text, sizeof text) > 0)
        full++;
    fcntl(ends[1], F_SETFL, 0); /* a write would now block for ever */
    dup2(ends[1], 2);
    dp_log_init("stderr");
    dp_log(DP_LOG_ERROR, "y");
    assert_true(full > 0);
    close(ends[0]);
    close(ends[1]);
}

static void collect(void *ctx, const char *said)
{
    strcat(ctx, said);
    strcat(ctx, "|");
}

TEST_WITH(setup, teardown, a_callback_takes_the_place_of_the_file)
{
    char got[256] = "", want[256];
    dp_log_to(collect, got);
    dp_log(DP_LOG_ERROR, "one");
    dp_log_to(NULL, NULL);
    dp_log(DP_LOG_ERROR, "two");
    snprintf(want, sizeof want, "deltaprof[%d]: one|", (int)getpid());
    assert_string_equal(got, want);
    assert_string_equal(written(path), line("two"));
}

static void *from_an_empty_table(void *allowed)
{
    *(int *)allowed = dp_log_own_table();
    if (*(int *)allowed == 0) {
        syscall(SYS_close_range, 0u, ~0u, 2u);
        dp_log(DP_LOG_ERROR, "from afar");
    }
    return NULL;
}

TEST_WITH(setup, teardown, a_thread_with_its_own_descriptors_reaches_the_hosts_fd_2)
{
    pthread_t thread;
    int err = -1;
    pthread_create(&thread, NULL, from_an_empty_table, &err);
    pthread_join(thread, NULL);
    if (err == -EPERM)
        skip();
    assert_string_equal(written(path), line("from afar"));
}

UNIT(NULL, NULL)
