/* SPDX-License-Identifier: MIT */
/*
 * victim_api_agent HOW - starts and stops the background thread, the agent, in several ways: by a key, by a signal, for
 * a moment, under seccomp. It names its own checks when they fail.
 */
#include "api_victim.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_int stuck;

static void block_for_ever(void *ctx, const char *line)
{
    stuck = 1;
    for (;;)
        pause();
}

/* The agent hangs in a tick: exit waits for exit_timeout and no longer. */
static void exits_in_time(void)
{
    start("heap_rate=1,interval=10ms,out=profiles,exit_timeout=300ms");
    deltaprof_set_log(block_for_ever, NULL);
    wait_for_tick(ticks());
    CHECK(rename("profiles", "gone") == 0);
    while (!stuck) {
        make(10);
        pause_ms(10);
    }
    printf("%.6f\n", now());
}

static void closes(void)
{
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    start("heap_rate=1,interval=10ms,out=profiles");
    wait_for_tick(ticks());
    int lowest = dup(0);
    close(lowest);
    close(ends[1]);
    CHECK(read(ends[0], &byte, 1) == 0); /* no other descriptor holds it open */
    for (int fd = 3; fd < 2000; fd++)
        close(fd);
    wait_for_tick(ticks());
    wait_for_tick(ticks());
    int next = dup(0);
    CHECK(next == 3 && lowest > 3);
}

static void changes(void)
{
    start("heap_rate=1,interval=1h,out=profiles");
    make(10);
    CHECK(threads() == 2); /* a program that calls deltaprof_start has the agent at once */
    CHECK(ticks() == 0);
    CHECK(deltaprof_set("interval=10ms") == 0);
    wait_for_tick(0);
    wait_for_tick(ticks());
    CHECK(deltaprof_stop() == 0);
    CHECK(threads() == 1);
    uint64_t before = ticks();
    pause_ms(50);
    CHECK(ticks() == before);
}

static void asks(void)
{
    start("heap_rate=1,interval=0,out=profiles,signal=USR2");
    make(10);
    kill(getpid(), SIGUSR2);
    double deadline = now() + 60;
    while (ticks() == 0 && now() < deadline)
        pause_ms(5);
    CHECK(ticks() == 1);
    struct sigaction old;
    CHECK(deltaprof_sigaction(SIGUSR2, NULL, &old, sigaction) == 0 && old.sa_handler == SIG_DFL);
    /* without an agent, in the handler itself */
    deltaprof_stop_agent();
    CHECK(threads() == 1);
    double before = now();
    raise(SIGUSR2);
    struct deltaprof_stats stats;
    CHECK(deltaprof_get_stats(&stats, sizeof stats) == 0);
    CHECK(stats.ticks == 2);
    CHECK((double)stats.files_age_ns <= (now() - before) * 1e9); /* the second file ends where its tick began */
    CHECK(stats.cursors_age_ns == UINT64_MAX);
}

static void quiesces(void)
{
    start("heap_rate=1,interval=10ms,out=profiles");
    for (int i = 0; i < 50; i++) {
        wait_for_tick(ticks());
        deltaprof_stop_agent();
        CHECK(threads() == 1);
        if (i == 0 && unshare(CLONE_NEWUSER) && errno != EPERM && errno != ENOSPC)
            CHECK(!"unshare in a process of one thread");
        if (deltaprof_poll_wanted == 0)
            CHECK(!"a poll is wanted again");
        double deadline = now() + 60;
        while (threads() == 1 && now() < deadline) {
            deltaprof_poll();
            pause_ms(1);
        }
        CHECK(threads() == 2);
    }
}

static void under_seccomp(void)
{
    start("heap_rate=1,interval=10ms,out=profiles");
    wait_for_tick(ticks());
    make(10);
    deltaprof_before_seccomp();
    CHECK(threads() == 1);
    CHECK(deltaprof_poll_wanted == 0);
    uint64_t before = ticks();
    make(10);
    deltaprof_poll();
    deltaprof_before_exit();
    CHECK(ticks() == before && threads() == 1);
}

int main(int argc, char **argv)
{
    static const struct api_case cases[] = {
        {"exits-in-time", exits_in_time},
        {"closes", closes},
        {"changes", changes},
        {"asks", asks},
        {"quiesces", quiesces},
        {"under-seccomp", under_seccomp},
    };
    return run_case(cases, sizeof cases / sizeof *cases, argc > 1 ? argv[1] : "");
}
