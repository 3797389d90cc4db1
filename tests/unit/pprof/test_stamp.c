/* SPDX-License-Identifier: MIT */
/*
 * The scope of a process id, in forked processes: what they inherit, and what they must not inherit. Without the right
 * to make namespaces there is nothing to test.
 */
#include "support/unit.h"
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/epoch.h"
#include "pprof/stamp.h"

static uint64_t *seen; /* scopes, as forked processes found them */

static pid_t do_fork(void)
{
    pid_t pid = fork();
    if (pid == 0)
        dp_epoch_fork_child();
    return pid;
}

static void ends_well(pid_t pid)
{
    int status;
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static int setup(void **state)
{
    seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return seen == MAP_FAILED ? -1 : 0;
}

/* Runs fn in a process of its own, which changes its namespaces. */
static void in_a_process(void (*fn)(void))
{
    pid_t pid = do_fork();
    if (!pid) {
        fn();
        _exit(0);
    }
    ends_well(pid);
}

static bool may_unshare(int what)
{
    int status;
    pid_t pid = fork();
    if (!pid)
        _exit(unshare(what) != 0);
    return waitpid(pid, &status, 0) == pid && status == 0;
}

static void note(int i)
{
    seen[i] = dp_stamp_make(getpid()).pid_scope;
}

/* Without /proc nothing can be found out, only inherited. */
static void hide_proc(void)
{
    if (unshare(CLONE_NEWNS) || mount("none", "/proc", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", "/proc", "tmpfs", 0, NULL))
        _exit(2);
}

static void parent_and_child_without_proc(void)
{
    note(0);
    dp_stamp_learn();
    hide_proc();
    pid_t pid = do_fork();
    if (!pid) {
        note(1);
        dp_stamp_learn();
        if (!do_fork()) {
            note(2);
            _exit(0);
        }
        wait(NULL);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

TEST(a_child_inherits_the_scope_of_its_parent)
{
    if (!may_unshare(CLONE_NEWNS))
        skip();
    in_a_process(parent_and_child_without_proc);
    assert_true(seen[0] != 0);
    assert_true(seen[1] == seen[0]);
    assert_true(seen[2] == 0); /* its parent could not find out */
}

/* A process with pid 1 learns; its grandchildren, in a namespace below, have a parent with pid 1, too. */
static void first_of_a_namespace(void)
{
    dp_stamp_learn();
    note(0);
    pid_t child = do_fork();
    if (!child) {
        pid_t first, second;
        if (unshare(CLONE_NEWPID))
            _exit(2);
        if (!(first = do_fork())) {
            note(1);
            if (!(second = do_fork())) {
                seen[3] = (uint64_t)getppid();
                note(2);
                _exit(0);
            }
            waitpid(second, NULL, 0);
            _exit(0);
        }
        waitpid(first, NULL, 0);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void make_a_namespace(void)
{
    pid_t pid;
    if (unshare(CLONE_NEWPID))
        _exit(2);
    if (!(pid = do_fork())) {
        first_of_a_namespace();
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

TEST(a_namespace_below_has_another_scope)
{
    if (!may_unshare(CLONE_NEWPID))
        skip();
    in_a_process(make_a_namespace);
    assert_true(seen[0] != 0);
    assert_int_equal(seen[3], 1);
    assert_true(seen[1] != 0 && seen[1] != seen[0]);
    assert_true(seen[2] == seen[1]);
}

UNIT(setup, NULL)
