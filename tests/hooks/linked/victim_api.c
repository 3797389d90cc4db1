/* SPDX-License-Identifier: MIT */
/*
 * victim_api HOW - uses the functions of deltaprof.h, forks, and writes profiles to its directory, also if that is full
 * or missing. It names its own checks when they fail; the driver checks the rest.
 */
#include "api_victim.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

NOINLINE void *make_in_child(size_t n_bytes)
{
    void *ptr = (void *)(next_block += 0x100);
    deltaprof_alloc(heap, ptr, n_bytes);
    return ptr;
}

static char said[65536];
static void collect(void *ctx, const char *line)
{
    strncat(said, line, sizeof said - strlen(said) - 2);
    strcat(said, "\n");
}

static void answers(void)
{
    deltaprof_set_log(collect, NULL);
    CHECK(strcmp(deltaprof_version(), DELTAPROF_VERSION) == 0);
    CHECK(deltaprof_stop() == -EALREADY);
    CHECK(deltaprof_emit() == -ENOTCONN);
    CHECK(deltaprof_set("heap_rate=1") == -ENOTCONN);
    CHECK(deltaprof_start("heaprate=1") == -EINVAL);
    CHECK(strstr(said, "deltaprof_start: heaprate: no such key, did you mean heap_rate=?"));
    CHECK(deltaprof_start("profiles") == -EINVAL);
    CHECK(strstr(said, "did you mean out=profiles?"));
    said[0] = '\0';
    CHECK(deltaprof_start("heap_rate=1,interval=0") == 0);
    CHECK(strstr(said, "no interposer is active"));
    CHECK(deltaprof_start(NULL) == -EALREADY);
    CHECK(deltaprof_set("out=x") == -EINVAL);
    CHECK(strstr(said, "deltaprof_set: out: cannot change while the profiler runs"));
    CHECK(deltaprof_set("heap_rate=x") == -EINVAL);
    for (int i = 0; i < 1000; i++) {
        CHECK(deltaprof_set(i % 2 ? "heap_rate=x" : "out=x") == -EINVAL);
        CHECK(deltaprof_start("heap_rate=x") == -EALREADY);
    }
    CHECK(strlen(said) < 4000);
    CHECK(deltaprof_emit() == 0); /* `out` is none: no file is written */

    struct deltaprof_stats stats, before;
    void *kept = make(100);
    CHECK(deltaprof_get_stats(&before, sizeof before) == 0);
    CHECK(before.samples >= 1 && before.live >= 1 && before.records >= 1 && before.memory_bytes > 0);
    CHECK(deltaprof_stop() == 0);
    CHECK(deltaprof_stop() == -EALREADY);
    make(100);
    deltaprof_get_stats(&stats, sizeof stats);
    CHECK(stats.samples == before.samples);
    deltaprof_free(heap, kept); /* goes on being counted */
    deltaprof_get_stats(&stats, sizeof stats);
    CHECK(stats.live == before.live - 1);
    CHECK(deltaprof_start("heap_rate=1,interval=0") == 0);
    make(100);
    deltaprof_get_stats(&stats, sizeof stats);
    CHECK(stats.samples == before.samples + 1);

    CHECK(stats.in_use_objects >= 1 && stats.in_use_bytes >= 100 * stats.in_use_objects);
    CHECK(stats.allocated_objects == stats.in_use_objects + 1 + (before.allocated_objects - before.in_use_objects));
    CHECK(stats.memory_limit_bytes == 64 << 20 && stats.files_age_ns == UINT64_MAX);

    memset(&stats, 0xff, sizeof stats);
    CHECK(deltaprof_get_stats(&stats, sizeof stats.samples) == 0);
    CHECK(stats.samples == before.samples + 1 && stats.records == UINT64_MAX);
    deltaprof_set_log(NULL, NULL);
}

static void emits(void)
{
    start("heap_rate=1,interval=0,out=profiles");
    for (int i = 0; i < 10; i++)
        make(100);
    CHECK(deltaprof_emit() == 0);
    CHECK(deltaprof_emit() == 0); /* in use, so there is a row */
    for (int i = 0; i < 5; i++)
        make(100);
    CHECK(threads() == 1);
}

static void forks(void)
{
    start("heap_rate=1,interval=0,out=profiles,exit_timeout=5s");
    for (int i = 0; i < 10; i++)
        make(100);
    fflush(NULL);
    pid_t idle = fork();
    if (idle == 0)
        exit(0); /* never sampled: nothing is printed */
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 5; i++)
            make_in_child(100);
        CHECK(deltaprof_emit() == 0);
        make_in_child(100);
        exit(0);
    }
    int status;
    waitpid(idle, &status, 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    if (vfork() == 0) {
        deltaprof_before_exit(); /* what the interposer's _exit calls */
        _exit(0);
    }
    wait(NULL);
    for (int i = 0; i < 3; i++)
        make(100);
    printf("%d %d\n", (int)idle, (int)child);
}

static atomic_int stuck;

static int write_fd(void *ctx, const void *bytes, size_t n_bytes)
{
    return write(*(int *)ctx, bytes, n_bytes) == (ssize_t)n_bytes ? 0 : -errno;
}

static int write_for_ever(void *ctx, const void *bytes, size_t n_bytes)
{
    stuck = 1;
    return write_fd(ctx, bytes, n_bytes);
}

static void *write_to_nobody(void *fd)
{
    struct deltaprof_delta *delta = deltaprof_delta_new(DELTAPROF_HEAP);
    deltaprof_delta_write(delta, write_for_ever, fd);
    return NULL;
}

/* A consumer is stuck in a pipe without a reader; another sink, forks and the exit are not delayed. */
static void is_stuck(void)
{
    pthread_t thread;
    int ends[2];
    start("heap_rate=1,interval=20ms,out=profiles,symbolize=none");
    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    char page[4096] = {0};
    while (write(ends[1], page, sizeof page) > 0)
        ;
    fcntl(ends[1], F_SETFL, 0);
    for (int i = 0; i < 100; i++)
        make(100);
    CHECK(pthread_create(&thread, NULL, write_to_nobody, &ends[1]) == 0);
    while (!stuck)
        pause_ms(1);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (child == 0) {
            make_in_child(100);
            exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    CHECK(deltaprof_emit() == 0);
    struct deltaprof_delta *other = deltaprof_delta_new(DELTAPROF_HEAP);
    int null = open("/dev/null", O_WRONLY);
    CHECK(deltaprof_delta_write(other, write_fd, &null) == 0);
    wait_for_tick(ticks());
}

static void keeps(void)
{
    start("heap_rate=1,interval=0,out=profiles,keep=3");
    for (int i = 0; i < 10; i++) {
        make(10);
        CHECK(deltaprof_emit() == 0);
    }
}

static void is_skipped(void)
{
    CHECK(deltaprof_start("exe=another|program*,out=profiles") == 0);
    make(1 << 30);
    CHECK(deltaprof_emit() == -ENOTCONN);
}

/* The driver takes the directory away and gives it back when told. */
static void has_no_directory(void)
{
    start("heap_rate=1,interval=0,out=profiles");
    make(10);
    CHECK(deltaprof_emit() == 0);
    CHECK(rename("profiles", "away") == 0);
    for (int i = 0; i < 3; i++) {
        make(10);
        CHECK(deltaprof_emit() == -ENOENT);
    }
    struct deltaprof_stats stats;
    deltaprof_get_stats(&stats, sizeof stats);
    CHECK(stats.write_errors == 3);
    CHECK(rename("away", "profiles") == 0);
    CHECK(deltaprof_emit() == 0);
    CHECK(deltaprof_emit() == 0);
}

static void on_crash(int sig)
{
    deltaprof_before_exit(); /* as the interposer's _exit does */
    _exit(7);
}

/* A crash handler on a stack of 8k, with nothing mapped below it. */
static void crashes(void)
{
    start("heap_rate=1,interval=0,out=profiles");
    for (int i = 0; i < 100; i++)
        make(10);
    char *map = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = map + (1 << 20) - 8192, .ss_size = 8192};
    CHECK(mprotect(stack.ss_sp, stack.ss_size, PROT_READ | PROT_WRITE) == 0);
    CHECK(sigaltstack(&stack, NULL) == 0);
    struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    *(volatile int *)map = 1;
}

/* In a tmpfs of 256k: fills it, so that profiles do not fit, and empties it. */
static void has_no_room(void)
{
    static char page[4096];
    start("heap_rate=1,interval=0,out=profiles");
    for (int i = 0; i < 10; i++)
        make(10);
    CHECK(deltaprof_emit() == 0);
    int fd = open("profiles/filler", O_CREAT | O_WRONLY, 0600);
    while (write(fd, page, sizeof page) > 0)
        ;
    for (int i = 0; i < 3; i++) {
        make(10);
        CHECK(deltaprof_emit() == -ENOSPC);
    }
    close(fd);
    unlink("profiles/filler");
    CHECK(deltaprof_emit() == 0);
}

int main(int argc, char **argv)
{
    static const struct api_case cases[] = {
        {"answers", answers},
        {"emits", emits},
        {"forks", forks},
        {"is-stuck", is_stuck},
        {"keeps", keeps},
        {"is-left-out", is_skipped},
        {"has-no-directory", has_no_directory},
        {"has-no-room", has_no_room},
        {"crashes", crashes},
    };
    return run_case(cases, sizeof cases / sizeof *cases, argc > 1 ? argv[1] : "");
}
