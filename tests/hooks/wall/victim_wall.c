/* SPDX-License-Identifier: MIT */
/*
 * Threads that spend their lives in known ways, and say so: a line for each, NAME, its life in ns by its own clock, and
 * by that of the thread which created and joined it, then STATE=NS for what its own clocks say of each state. The first
 * argument chooses what the program does; see main. Of the functions that a thread calls, only the last one waits.
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS INT64_C(1000000)

enum { RUNNING, RUNNABLE, LOCK, IO, SLEEP, STATES };
static const char *const names[STATES] = {"running", "runnable", "lock", "io", "sleep"};

struct life {
    char name[16];
    int64_t ns, made_ns, most_ns, of[STATES], limit_ns;
    int64_t begin_ns, clock_ns, queue_ns; /* at the begin */
    pthread_t thread;
};

static int64_t read_clock(clockid_t id)
{
    struct timespec t;
    syscall(SYS_clock_gettime, id, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int64_t now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

static int64_t own_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

static int64_t queue_ns(void)
{
    long long run = 0, queue = 0;
    FILE *f = fopen("/proc/thread-self/schedstat", "r");
    if (f && fscanf(f, "%lld %lld", &run, &queue) != 2)
        queue = 0;
    if (f)
        fclose(f);
    return queue;
}

static volatile uint64_t sink;

__attribute__((noinline)) static void burns(int64_t ns)
{
    for (int64_t end = own_ns() + ns; own_ns() < end;)
        for (int i = 0; i < 20000; i++)
            sink = sink * 6364136223846793005u + 1;
}

__attribute__((noinline)) static void naps(int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    nanosleep(&t, NULL);
}

static int lines[2];
__attribute__((noinline)) static void reads_line(void)
{
    char c;
    if (read(lines[0], &c, 1) != 1)
        abort();
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) static void waits_for_lock(void)
{
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
}

static void begin(struct life *life)
{
    prctl(PR_SET_NAME, life->name);
    life->queue_ns = queue_ns();
    life->clock_ns = own_ns();
    life->begin_ns = now();
}

static void end(struct life *life)
{
    life->ns = now() - life->begin_ns;
    life->of[RUNNING] = own_ns() - life->clock_ns;
    life->of[RUNNABLE] = queue_ns() - life->queue_ns;
}

/* Until a thread has lived as long as it shall. */
static int goes_on(const struct life *life)
{
    return now() - life->begin_ns < life->limit_ns;
}

/* Counts the time of a call that waits, without what it ran and was in a queue. */
#define TIMED(life, state, call)                                 \
    do {                                                         \
        int64_t at = now(), ran = own_ns(), queued = queue_ns(); \
        call;                                                    \
        life->of[state] += now() - at - (own_ns() - ran);        \
        life->of[state] -= queue_ns() - queued;                  \
    } while (0)

__attribute__((noinline)) static void *sleeper(void *at)
{
    struct life *life = at;
    begin(life);
    while (goes_on(life))
        TIMED(life, SLEEP, naps(7 * MS));
    end(life);
    return NULL;
}

__attribute__((noinline)) static void *reader(void *at)
{
    struct life *life = at;
    begin(life);
    while (goes_on(life))
        TIMED(life, IO, reads_line());
    end(life);
    return NULL;
}

__attribute__((noinline)) static void *locker(void *at)
{
    struct life *life = at;
    begin(life);
    while (goes_on(life)) {
        TIMED(life, LOCK, waits_for_lock());
        burns(MS / 10);
    }
    end(life);
    return NULL;
}

__attribute__((noinline)) static void *burner(void *at)
{
    struct life *life = at;
    begin(life);
    while (goes_on(life))
        burns(5 * MS);
    end(life);
    return NULL;
}

__attribute__((noinline)) static void *mixed(void *at)
{
    struct life *life = at;
    begin(life);
    while (goes_on(life)) {
        TIMED(life, SLEEP, naps(40 * MS));
        burns(20 * MS);
        TIMED(life, IO, reads_line());
    }
    end(life);
    return NULL;
}

__attribute__((noinline)) static void *brief(void *at)
{
    struct life *life = at;
    begin(life);
    burns(2 * MS);
    naps(3 * MS);
    end(life);
    return NULL;
}

static volatile int is_over;

/* Holds the lock most of the time, and feeds the readers. */
static void *holder(void *unused)
{
    while (!is_over) {
        pthread_mutex_lock(&lock);
        naps(15 * MS);
        pthread_mutex_unlock(&lock);
        if (write(lines[1], "..", 2) != 2)
            abort();
        naps(5 * MS);
    }
    return unused;
}

static void start(struct life *life, const char *name, int64_t ms, void *(*fn)(void *))
{
    memset(life, 0, sizeof *life);
    snprintf(life->name, sizeof life->name, "%s", name);
    life->limit_ns = ms * MS;
    life->made_ns = now();
    if (pthread_create(&life->thread, NULL, fn, life))
        abort();
}

static void print(const struct life *life)
{
    printf("%s %lld %lld", life->name, (long long)life->ns, (long long)life->most_ns);
    for (int i = 0; i < STATES; i++)
        printf(" %s=%lld", names[i], (long long)life->of[i]);
    printf("\n");
}

static void join(struct life *life)
{
    pthread_join(life->thread, NULL);
    life->most_ns = now() - life->made_ns;
}

static void finish(struct life *life)
{
    join(life);
    print(life);
}

/* One thread in each state, and one in several. */
static void states(int64_t ms)
{
    struct life lives[5];
    pthread_t of_holder;
    pthread_create(&of_holder, NULL, holder, NULL);
    start(&lives[0], "sleeper", ms, sleeper);
    start(&lives[1], "reader", ms, reader);
    start(&lives[2], "locker", ms, locker);
    start(&lives[3], "burner", ms, burner);
    start(&lives[4], "mixed", ms, mixed);
    for (int i = 0; i < 5; i++)
        finish(&lives[i]);
    is_over = 1;
    pthread_join(of_holder, NULL);
}

static void many(int64_t n)
{
    struct life *lives = calloc((size_t)n, sizeof *lives), sum = {.name = "brief"};
    for (int64_t i = 0; i < n; i++) {
        start(&lives[i], "brief", 0, brief);
        if (i >= 4)
            join(&lives[i - 4]);
    }
    for (int64_t i = n - 4; i < n; i++)
        join(&lives[i]);
    for (int64_t i = 0; i < n; i++) {
        sum.ns += lives[i].ns;
        sum.most_ns += lives[i].most_ns;
        for (int k = 0; k < STATES; k++)
            sum.of[k] += lives[i].of[k];
    }
    print(&sum);
}

static void one(const char *name, int64_t ms, void *(*fn)(void *))
{
    struct life life;
    start(&life, name, ms, fn);
    finish(&life);
}

/* Says when it is there and waits to be ended, with threads that are idle in four ways. */
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t of_never = PTHREAD_MUTEX_INITIALIZER;

/* The rules of these count from the frame pointer, which the kernel does not tell of a thread that waits. */
#define KEEPS_FP __attribute__((noinline, optimize("no-omit-frame-pointer")))

KEEPS_FP static void *idle_cond(void *unused)
{
    pthread_mutex_lock(&of_never);
    for (;;)
        pthread_cond_wait(&never, &of_never);
    return unused;
}

KEEPS_FP static void *idle_epoll(void *unused)
{
    struct epoll_event event;
    int fd = epoll_create1(EPOLL_CLOEXEC);
    for (;;)
        epoll_wait(fd, &event, 1, -1);
    return unused;
}

KEEPS_FP static void *idle_poll(void *unused)
{
    for (;;)
        poll(NULL, 0, -1);
    return unused;
}

KEEPS_FP static void *idle_read(void *unused)
{
    for (char c;;)
        if (read(lines[0], &c, 1) < 0)
            return unused;
}

static void idle(int64_t n)
{
    static void *(*const fns[])(void *) = {idle_cond, idle_epoll, idle_poll, idle_read};
    for (int64_t i = 0; i < n; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, fns[i % 4], NULL))
            abort();
    }
    printf("ready\n");
    fflush(stdout);
    for (;;)
        naps(3600000 * MS);
}

/* A filter that allows all, installed past the profiler's hooks. */
static void filter(void)
{
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, allow};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
        perror("seccomp");
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int64_t n = argc > 2 ? atoll(argv[2]) : 0;
    if (pipe2(lines, O_CLOEXEC))
        return 1;
    if (!strcmp(mode, "states")) {
        states(n);
    } else if (!strcmp(mode, "brief")) {
        many(n);
    } else if (!strcmp(mode, "forked")) {
        one("before", n, sleeper);
        pid_t pid = fork();
        one(pid ? "parent" : "child", n, sleeper);
        if (pid)
            waitpid(pid, NULL, 0);
    } else if (!strcmp(mode, "dropped")) {
        one("before", n, sleeper);
        if (setgid(65534) || setuid(65534))
            return 3;
        one("dropped", n, sleeper);
    } else if (!strcmp(mode, "undumpable")) { /* its files in /proc belong to root from then on */
        one("before", n, sleeper);
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
            return 3;
        one("undumpable", n, sleeper);
    } else if (!strcmp(mode, "filtered")) {
        one("before", n, sleeper);
        filter();
        one("filtered", n, sleeper);
    } else if (!strcmp(mode, "idle")) {
        idle(n);
    } else {
        return 2;
    }
    return 0;
}
