/* SPDX-License-Identifier: MIT */
/*
 * All functions of the core at the same time: threads allocate and free while others start, stop, change settings,
 * emit, stop the agent and fork. No call hangs, every call returns a documented value, and no write is lost by an
 * error.
 */
#include <deltaprof/hooks.h>

#include "../support/scratch.h"
#include "stress.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define CAN_FORK 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CAN_FORK 0
#endif
#endif
#ifndef CAN_FORK
#define CAN_FORK 1
#endif

static int64_t end_ms;
static uint32_t heap;
static _Atomic uint64_t n_lines, n_forks, n_emits;
static char out[48];

static bool going_on(void)
{
    return stress_now_ms() < end_ms;
}

static void pause_us(long us)
{
    struct timespec t = {0, us * 1000};
    nanosleep(&t, NULL);
}

static void allocate(unsigned i)
{
    uintptr_t base = (uintptr_t)(i + 1) << 32, live[64] = {0};
    uint64_t random = i + 1;
    while (going_on()) {
        unsigned slot = stress_random(&random) % 64;
        if (live[slot])
            deltaprof_free(heap, (void *)live[slot]);
        live[slot] = live[slot] ? 0 : (base += 0x40);
        if (live[slot])
            deltaprof_alloc(heap, (void *)live[slot], 100);
        if (__atomic_load_n(&deltaprof_poll_wanted, __ATOMIC_RELAXED))
            deltaprof_poll();
    }
}

static void emit(unsigned i)
{
    while (going_on()) {
        int err = deltaprof_emit();
        CHECK(err == 0, "%d", err);
        n_emits++;
        struct deltaprof_stats stats;
        CHECK(deltaprof_get_stats(&stats, sizeof stats) == 0);
        pause_us(500);
    }
}

static void change(unsigned i)
{
    for (unsigned n = 0; going_on(); n++) {
        int err = deltaprof_set(n % 2 ? "heap_rate=1,interval=1ms" : "heap_rate=4k,interval=7ms,symbolize=none");
        CHECK(err == 0, "%d", err);
        pause_us(700);
    }
}

static void stop_and_start(unsigned i)
{
    while (going_on()) {
        int err = deltaprof_stop();
        CHECK(err == 0, "%d", err);
        pause_us(300);
        err = deltaprof_start("interval=3ms");
        CHECK(err == 0, "%d", err);
        CHECK(deltaprof_start(NULL) == -EALREADY);
        pause_us(3000);
    }
}

static void count_line(void *ctx, const char *line)
{
    n_lines++;
}

static void quiet(unsigned i)
{
    for (unsigned n = 0; going_on(); n++) {
        deltaprof_stop_agent();
        deltaprof_set_log(n % 2 ? count_line : NULL, NULL);
        pause_us(2000);
    }
}

static void fork_children(unsigned i)
{
    while (CAN_FORK && going_on()) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(60); /* a hang ends the child, and the parent sees that */
            deltaprof_alloc(heap, (void *)(uintptr_t)0x77777700, 100);
            int err = deltaprof_emit();
            deltaprof_before_exit();
            _exit(err ? 3 : 0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(status == 0, "%x", (unsigned)status);
        n_forks++;
    }
}

static void everybody(unsigned i)
{
    void (*const all[])(unsigned) = {allocate, allocate, allocate, emit, change, stop_and_start, quiet, fork_children};
    all[i](i);
}

int main(void)
{
    char conf[128], command[64];
    CHECK(scratch_directory(out, sizeof out, "core") == 0);
    snprintf(conf, sizeof conf, "heap_rate=1,interval=2ms,keep=20,symbolize=none,exit_timeout=60s,out=%s", out);
    setenv("DELTAPROF_CONF", conf, 1); /* holds for every start */
    deltaprof_announce_hooks(DELTAPROF_HOOKS_MALLOC);
    heap = deltaprof_heap_register("stress");
    CHECK(deltaprof_start(NULL) == 0);
    end_ms = stress_now_ms() + 4 * stress_length_ms();
    stress_threads(8, everybody);
    struct deltaprof_stats stats;
    CHECK(deltaprof_get_stats(&stats, sizeof stats) == 0);
    CHECK(stats.write_errors == 0 && n_lines == 0, "%llu %llu", (unsigned long long)stats.write_errors,
          (unsigned long long)n_lines);
    printf("%llu ticks, %llu emits, %llu forks, %llu samples\n", (unsigned long long)stats.ticks,
           (unsigned long long)n_emits, (unsigned long long)n_forks, (unsigned long long)stats.samples);
    deltaprof_set_log(NULL, NULL);
    CHECK(deltaprof_stop() == 0);
    snprintf(command, sizeof command, "rm -rf %s", out);
    int err = system(command);
    fflush(NULL);
    _exit(err); /* not interposed here: writes no last profile into the removed directory */
}
