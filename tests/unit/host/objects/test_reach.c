/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/objects/reach.h"

enum { PAGE = 4096, GUARD_MOST = 64 << 10 /* on aarch64 */ };

struct seen {
    struct dp_own_stack own;
    struct dp_reach reach;
    uintptr_t sp, start, end, self; /* of the stack as pthread_getattr_np says */
};

static __attribute__((noinline)) void look(struct seen *seen)
{
    seen->sp = (uintptr_t)__builtin_frame_address(0) & ~(uintptr_t)7;
    seen->self = (uintptr_t)pthread_self();
    dp_reach_begin(&seen->reach, &seen->own, seen->sp);
    pthread_attr_t attr;
    void *start;
    size_t size;
    assert_int_equal(pthread_getattr_np(pthread_self(), &attr), 0);
    pthread_attr_getstack(&attr, &start, &size);
    pthread_attr_destroy(&attr);
    seen->start = (uintptr_t)start;
    seen->end = (uintptr_t)start + size;
}

static void *look_in_thread(void *seen)
{
    look(seen);
    return seen;
}

static void run(struct seen *seen, const pthread_attr_t *attr)
{
    pthread_t thread;
    memset(seen, 0, sizeof *seen);
    assert_int_equal(pthread_create(&thread, attr, look_in_thread, seen), 0);
    pthread_join(thread, NULL);
}

/* From the page of sp to the control block; no further down, because the host may protect pages there. */
static void bounds_are_those_of_libc(const struct seen *seen)
{
    assert_true(seen->own.bottom <= seen->start && seen->own.bottom + GUARD_MOST >= seen->start);
    assert_int_equal(seen->own.hi, seen->self);
    assert_int_equal(seen->own.lo, seen->sp & ~(uintptr_t)(PAGE - 1));
    assert_int_equal(seen->reach.lo, seen->own.lo);
    assert_int_equal(seen->reach.hi, seen->own.hi);
    assert_int_equal(seen->reach.n_probes, 0);
}

TEST(a_threads_stack_is_known_without_a_probe)
{
    struct seen seen;
    run(&seen, NULL);
    bounds_are_those_of_libc(&seen);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    assert_int_equal(pthread_attr_setstacksize(&attr, 200 << 10), 0);
    run(&seen, &attr);
    bounds_are_those_of_libc(&seen);
    pthread_attr_setguardsize(&attr, 0);
    run(&seen, &attr);
    bounds_are_those_of_libc(&seen);
    pthread_attr_destroy(&attr);
}

TEST(a_stack_that_the_program_gave_is_known)
{
    struct seen seen;
    static char below[192 << 10] __attribute__((aligned(PAGE)));
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    assert_int_equal(pthread_attr_setstack(&attr, below, sizeof below), 0);
    run(&seen, &attr);
    bounds_are_those_of_libc(&seen);
    assert_int_equal(seen.own.bottom, (uintptr_t)below);
    pthread_attr_destroy(&attr);
}

/* Mapped without a gap below the thread's stack, as a fiber's may be. */
static void *look_below(void *below)
{
    struct seen seen = {.sp = 0};
    struct dp_reach reach;
    look(&seen);
    dp_reach_begin(&reach, &seen.own, (uintptr_t)below - 64);
    assert_int_equal(reach.hi - reach.lo, PAGE);
    assert_int_equal(seen.own.hi, seen.self);
    assert_true(seen.own.lo >= seen.own.bottom - PAGE && seen.own.lo > (uintptr_t)below - PAGE);
    assert_true(dp_reach_move(&reach, (uintptr_t)below - 2 * PAGE));
    assert_int_equal(reach.n_probes, 1);
    assert_true(dp_reach_move(&reach, seen.sp)); /* and back */
    assert_int_equal(reach.n_probes, 1);
    dp_reach_begin(&reach, &seen.own, (uintptr_t)below - PAGE); /* perhaps the very end of a stack */
    assert_int_equal(reach.hi, reach.lo);
    return NULL;
}

TEST(what_lies_below_it_is_another_stack)
{
    char *region = mmap(NULL, 192 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(region != MAP_FAILED);
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    assert_int_equal(pthread_attr_setstack(&attr, region + (64 << 10), 128 << 10), 0);
    assert_int_equal(pthread_create(&thread, &attr, look_below, region + (64 << 10)), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    munmap(region, 192 << 10);
}

TEST(the_first_threads_stack_is_learned)
{
    struct seen seen = {.sp = 0};
    look(&seen);
    assert_true(seen.own.lo <= seen.sp && seen.own.hi > seen.sp && seen.own.hi <= seen.end);
    assert_true(seen.own.lo >= seen.start);
    assert_true(seen.reach.hi == seen.own.hi);
}

static void *fork_in_thread(void *status)
{
    pid_t child = fork();
    if (!child) {
        struct seen seen = {.sp = 0};
        look(&seen);
        _exit(seen.own.hi == seen.self && seen.own.bottom <= seen.start ? 0 : 1);
    }
    waitpid(child, status, 0);
    return NULL;
}

TEST(a_child_of_a_thread_keeps_that_threads_stack)
{
    pthread_t thread;
    int status = -1;
    assert_int_equal(pthread_create(&thread, NULL, fork_in_thread, &status), 0);
    pthread_join(thread, NULL);
    assert_int_equal(status, 0);
}

static int start(void **state)
{
    dp_reach_init();
    return 0;
}

UNIT(start, NULL)
