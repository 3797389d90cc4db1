/* SPDX-License-Identifier: MIT */
/* Ended processes whose tables could not be deleted: they are tried again, and what they did counts once. */
#include "saved_family.h"

#include "tool/serve/unwritten.h"

#include <errno.h>
#include <sys/mman.h>

#define PAUSE_NS INT64_C(500000000)
enum { MOST = 512 };

static struct dp_serve_workers *all = &here.workers;
static int messages = -1; /* what is written to standard error */

/* Reads what was written since, and returns the number of its lines. */
static size_t count_lines(void)
{
    char bytes[4096];
    ssize_t n = pread(messages, bytes, sizeof bytes, 0);
    size_t n_lines = 0;
    for (ssize_t i = 0; i < n; i++)
        n_lines += bytes[i] == '\n';
    assert_int_equal(ftruncate(messages, 0), 0);
    return n_lines;
}

/* A process with these events in its heap profile. Its table cannot be deleted, as it is a link, if is_stuck. */
static void add_ended(const char *name, bool is_stuck, int64_t n, int err)
{
    char file[96];
    struct dp_serve_unwritten u = {.table = {.state = DP_RECOVER_ENDED, .pid = 9, .program = "worker"}};
    snprintf(u.table.name, sizeof u.table.name, "%s", name);
    snprintf(file, sizeof file, "%s/%s", directory, name);
    if (is_stuck)
        assert_int_equal(symlink("nowhere", file), 0);
    u.totals[DP_KIND_HEAP] = make_delta(DP_KIND_HEAP, 0, "", "f", n);
    dp_serve_unwritten_add(all, &u, err, "why");
}

static void delete_table(const char *name)
{
    char file[96];
    snprintf(file, sizeof file, "%s/%s", directory, name);
    assert_int_equal(unlink(file), 0);
}

static bool has_ended(int64_t n)
{
    int64_t sums[DP_KIND_TYPES_MAX];
    if (!all->ended[DP_KIND_HEAP])
        return n == 0;
    dp_serve_join_sums(all->ended[DP_KIND_HEAP], sums);
    return sums[0] == n && sums[1] == 100 * n;
}

static bool retry(unsigned most)
{
    size_t n = all->unwritten.n;
    all->retry_ns = 0;
    dp_serve_unwritten_retry(all, most);
    return all->unwritten.n < n;
}

TEST_WITH(begin, end, what_could_not_be_deleted_is_tried_again)
{
    add_ended("stuck", true, 1, -ELOOP);
    int64_t first_ns = all->retry_ns;
    assert_true(first_ns > 0);
    assert_int_equal(all->pause_ns, PAUSE_NS);
    add_ended("a", false, 10, -ELOOP);
    add_ended("b", false, 100, -EBUSY);
    add_ended("c", false, 1000, -EBUSY);
    assert_int_equal(all->retry_ns, first_ns);
    assert_int_equal(count_lines(), 2); /* one for each error */
    all->retry_ns += INT64_C(3600000000000);
    dp_serve_unwritten_retry(all, 9); /* it is not time yet */
    assert_int_equal(all->unwritten.n, 4);
    assert_true(dp_serve_unwritten_has(all, "stuck") && dp_serve_unwritten_has(all, "c"));
    assert_false(dp_serve_unwritten_has(all, "d"));

    assert_false(retry(9)); /* the first one fails, and stands behind the others then */
    assert_int_equal(all->pause_ns, 2 * PAUSE_NS);
    assert_true(all->retry_ns >= 2 * PAUSE_NS);
    assert_int_equal(all->last_files_error, -EBUSY);
    assert_true(has_ended(0));
    assert_true(retry(1));
    assert_true(has_ended(10));
    assert_int_equal(all->retry_ns, 0);
    assert_int_equal(all->pause_ns, PAUSE_NS);
    assert_int_equal(all->last_files_error, 0);
    assert_false(retry(0));
    assert_true(retry(9));
    assert_true(has_ended(1110));
    assert_int_equal(all->unwritten.n, 1);
    for (int64_t wanted = 4 * PAUSE_NS; wanted < 100 * PAUSE_NS; wanted *= 2) {
        assert_false(retry(9));
        assert_int_equal(all->pause_ns, wanted < 30 * PAUSE_NS ? wanted : 30 * PAUSE_NS);
    }
    delete_table("stuck");
    assert_true(retry(9));
    assert_true(has_ended(1111));
    assert_int_equal(all->pause_ns, PAUSE_NS);
}

TEST_WITH(begin, end, of_too_many_the_oldest_are_lost)
{
    char name[16];
    add_ended("stuck", true, 1, -ELOOP);
    for (int i = 1; i < MOST; i++) {
        snprintf(name, sizeof name, "t%d", i);
        add_ended(name, false, i == 1 ? 10 : i == 2 ? 100 : 0, -ELOOP);
    }
    assert_int_equal(all->unwritten.n, MOST);
    assert_int_equal(all->n_unwritten_lost, 0);
    assert_int_equal(count_lines(), 1);
    add_ended("one more", false, 0, -ELOOP); /* the oldest one cannot go */
    assert_int_equal(all->unwritten.n, MOST + 1);
    assert_int_equal(all->n_unwritten_lost, 0);
    delete_table("stuck");
    for (int i = 0; i < 2; i++)
        add_ended("and more", false, 0, -ELOOP);
    assert_int_equal(all->n_unwritten_lost, 2);
    assert_int_equal(all->unwritten.n, MOST + 1);
    assert_int_equal(count_lines(), 1); /* it is said once */
    assert_true(has_ended(11));
    assert_string_equal(all->unwritten.at[0].table.name, "t2");
}

/* Stops after the second one. */
static int count_two(void *ctx, struct dp_serve_delta *delta)
{
    assert_int_equal(delta->kind, DP_KIND_HEAP);
    return ++*(int *)ctx < 2 ? 0 : -EPIPE;
}

TEST_WITH(begin, end, profiles_since_the_start_are_passed_until_an_error)
{
    int n = 0;
    assert_int_equal(dp_serve_unwritten_totals(all, DP_KIND_HEAP, count_two, &n), 0);
    add_ended("a", false, 1, -ELOOP);
    assert_int_equal(dp_serve_unwritten_totals(all, DP_KIND_MUTEX, count_two, &n), 0);
    assert_int_equal(dp_serve_unwritten_totals(all, DP_KIND_HEAP, count_two, &n), 0);
    add_ended("b", false, 1, -ELOOP);
    add_ended("c", false, 1, -ELOOP);
    assert_int_equal(n, 1);
    assert_int_equal(dp_serve_unwritten_totals(all, DP_KIND_HEAP, count_two, &n), -EPIPE);
    assert_int_equal(n, 2);
    n = -9;
    assert_int_equal(dp_serve_unwritten_totals(all, DP_KIND_HEAP, count_two, &n), 0);
    assert_int_equal(n, -6);
    count_lines();
}

int main(void)
{
    messages = memfd_create("messages", MFD_CLOEXEC);
    if (messages < 0 || dup2(messages, STDERR_FILENO) < 0)
        return 1;
    int status = run_unit(make_directory, remove_directory);
    char bytes[4096];
    ssize_t n = status ? pread(messages, bytes, sizeof bytes, 0) : 0;
    return n > 0 && write(STDOUT_FILENO, bytes, (size_t)n) != n ? 1 : status;
}
