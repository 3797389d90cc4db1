/* SPDX-License-Identifier: MIT */
/* Consumers on both sides of a fork: of a process at rest, of a write under way, out of a sink. */
#include "support/unit.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/symbols/called.h"
#include "host/report/settings.h"
#include "support/consumers.h"

static void forked(void)
{
    dp_record_fork_child();
    dp_report_fork_child();
}

static pid_t do_fork(void)
{
    dp_report_fork_prepare();
    dp_record_fork_prepare();
    pid_t pid = fork();
    if (pid)
        dp_record_fork_parent();
    else
        forked();
    return pid;
}

static void child_was_right(pid_t pid)
{
    int status;
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* In the child: exits 1 at once when something is wrong, since cmocka's asserts would go on with the parent's tests. */
#define MUST(true)                                                    \
    do {                                                              \
        if (!(true)) {                                                \
            fprintf(stderr, "child, line %d: %s\n", __LINE__, #true); \
            _exit(1);                                                 \
        }                                                             \
    } while (0)

TEST(a_forked_child_begins_at_its_own_zero)
{
    struct dp_consumer *c = new_consumer();
    allocate(10, 5);
    release(10, 1);
    pid_t pid = do_fork();
    if (!pid) {
        alarm(60);
        dp_table_add(DP_KIND_HEAP, record_of(DP_KIND_HEAP, 10), 2, 20);
        struct dp_consumer *own = dp_consumer_new(DELTAPROF_HEAP, NULL), *both[] = {c, own};
        for (int i = 0; i < 2; i++) {
            MUST(!dp_consumer_write(both[i], 0, take, &taken, NULL) && !dp_consumer_commit(both[i]));
            read_taken(&taken, &said);
            const struct said_row *row = row_of(&said, PC(10));
            MUST(row && said.sums[0] == 2 && said.sums[2] == 6);
            MUST(said.n_rows == 2 && !strcmp(said.rows[0].label, "inherited") && !*said.rows[1].label);
            MUST(said.rows[0].values[2] == 4 && said.rows[1].values[2] == 2);
        }
        MUST(!dp_consumer_write(own, DP_WRITE_CUMULATIVE, take, &taken, NULL));
        read_taken(&taken, &said);
        MUST(said.sums[0] == 2);
        _exit(0);
    }
    child_was_right(pid);
    write_and_commit(c);
    values_are(10, 5, 4);
    release(10, 4);
    dp_consumer_free(c);
}

static struct dp_consumer *stuck;
static pthread_barrier_t inside, forked_by_now;

static void wait_for_the_fork(void)
{
    pthread_barrier_wait(&inside);
    pthread_barrier_wait(&forked_by_now);
}

static void *write_slowly(void *arg)
{
    struct taken slow = {.meanwhile = wait_for_the_fork};
    assert_int_equal(dp_consumer_write(stuck, 0, take, &slow, NULL), 0);
    assert_int_equal(dp_consumer_commit(stuck), 0);
    dp_vec_fini(&slow.bytes);
    return NULL;
}

TEST(the_parent_knows_the_hooks_object_before_a_fork)
{
    uintptr_t hook = (uintptr_t)_cmocka_run_group_tests; /* in a library of its own, in no stack of these tests */
    dp_symbols_called_hooks_at(hook);
    uint32_t n_objects = dp_objects_count();
    dp_report_learn_for_children();
    assert_int_equal(dp_objects_count(), n_objects + 1);
    assert_int_equal(dp_object_find(hook), n_objects);
    dp_symbols_called_hooks_at(0);
}

static pid_t child_of_a_sink;

static void fork_in_the_sink(void)
{
    child_of_a_sink = do_fork();
}

TEST(a_write_under_way_at_the_fork_does_not_hold_the_child)
{
    pthread_t thread;
    stuck = new_consumer();
    allocate(11, 3);
    release(11, 3);
    pthread_barrier_init(&inside, NULL, 2);
    pthread_barrier_init(&forked_by_now, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, write_slowly, NULL), 0);
    pthread_barrier_wait(&inside);
    assert_int_equal(dp_consumer_write(stuck, DP_WRITE_NO_WAIT, take, &taken, NULL), -EAGAIN);
    pid_t pid = do_fork();
    if (!pid) {
        alarm(60);
        MUST(dp_consumer_commit(stuck) == -EINVAL); /* what was pending was the parent's */
        dp_table_add(DP_KIND_HEAP, record_of(DP_KIND_HEAP, 11), 1, 10);
        MUST(!dp_consumer_write(stuck, 0, take, &taken, NULL) && !dp_consumer_commit(stuck));
        read_taken(&taken, &said);
        MUST(said.sums[0] == 1);
        dp_consumer_free(stuck);
        _exit(0);
    }
    pthread_barrier_wait(&forked_by_now);
    pthread_join(thread, NULL);
    child_was_right(pid);
    write_and_commit(stuck);
    values_are(11, 0, 0);
    dp_consumer_free(stuck);
}

TEST(a_sink_that_forks_ends_the_write_in_the_child_only)
{
    struct dp_consumer *c = new_consumer();
    allocate(12, 3);
    release(12, 3);
    taken.meanwhile = fork_in_the_sink;
    int err = dp_consumer_write(c, 0, take, &taken, NULL);
    if (!child_of_a_sink) {
        alarm(60);
        MUST(err == -ECANCELED);
        dp_vec_fini(&taken.bytes);
        MUST(!dp_consumer_write(c, 0, take, &taken, NULL) && !dp_consumer_commit(c));
        read_taken(&taken, &said);
        MUST(said.sums[0] == 0);
        _exit(0);
    }
    assert_int_equal(err, 0);
    assert_int_equal(dp_consumer_commit(c), 0);
    read_taken(&taken, &said);
    values_are(12, 3, 0);
    child_was_right(child_of_a_sink);
    dp_consumer_free(c);
}

UNIT(records_begin, NULL)
