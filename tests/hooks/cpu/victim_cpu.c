/* SPDX-License-Identifier: MIT */
/*
 * Uses CPU time in known functions on known threads, and prints what its own CPU clocks say: a line for each thread,
 * NAME NANOSECONDS, and of the process. The first word of the arguments chooses what it does; see `modes`.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t read_clock(clockid_t id)
{
    struct timespec t;
    syscall(SYS_clock_gettime, id, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int64_t own_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

static volatile uint64_t sink;

/* About 10 us without a call. */
static inline __attribute__((always_inline)) void spin(void)
{
    uint64_t x = sink;
    for (int i = 0; i < 5000; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    sink = x;
}

/* Each uses CPU time until the thread's clock has moved on by ns. Returns by how much it has. */
#define BURNER(name)                                          \
    static __attribute__((noinline)) int64_t name(int64_t ns) \
    {                                                         \
        int64_t begin = own_ns(), now = begin;                \
        while (now - begin < ns) {                            \
            for (int i = 0; i < 20; i++)                      \
                spin();                                       \
            now = own_ns();                                   \
        }                                                     \
        return now - begin;                                   \
    }
BURNER(burn)
BURNER(burn_one)
BURNER(burn_two)
BURNER(burn_three)

#define MS INT64_C(1000000)

struct job {
    char name[16];
    int64_t work_ns, clock_ns;
    pthread_t thread;
};

static void *work(void *at)
{
    struct job *job = at;
    prctl(PR_SET_NAME, job->name);
    burn(job->work_ns);
    job->clock_ns = own_ns();
    return NULL;
}

static void print_process(void)
{
    printf("process %lld\n", (long long)read_clock(CLOCK_PROCESS_CPUTIME_ID));
}

/* N threads at once: thread i uses first_ns and i times more_ns. */
static void run_jobs(int n, int64_t first_ns, int64_t more_ns)
{
    struct job *jobs = calloc((size_t)n, sizeof *jobs);
    for (int i = 0; i < n; i++) {
        snprintf(jobs[i].name, sizeof jobs[i].name, "t%d", i);
        jobs[i].work_ns = first_ns + i * more_ns;
        if (pthread_create(&jobs[i].thread, NULL, work, &jobs[i]))
            abort();
    }
    for (int i = 0; i < n; i++) {
        pthread_join(jobs[i].thread, NULL);
        printf("%s %lld\n", jobs[i].name, (long long)jobs[i].clock_ns);
    }
    free(jobs);
}

/* N threads at once: thread i uses (i + 1) * MS. */
static void unequal(int argc, char **argv)
{
    run_jobs(atoi(argv[2]), atoi(argv[3]) * MS, atoi(argv[3]) * MS);
}

/* N threads at once, of MS each. */
static void equal(int argc, char **argv)
{
    run_jobs(atoi(argv[2]), atoi(argv[3]) * MS, 0);
}

/*
 * A thread that has ended, as the profiler sees it, and is still there when the process ends: it never leaves a
 * destructor of its last round. The key is newer than the profiler's, so this destructor is called after that one.
 */
static pthread_key_t last_key;
static _Atomic bool is_last_round;

static void linger(void *round)
{
    if ((uintptr_t)round < PTHREAD_DESTRUCTOR_ITERATIONS) {
        pthread_setspecific(last_key, (void *)((uintptr_t)round + 1));
        return;
    }
    is_last_round = true;
    for (;;)
        pause();
}

static void *work_and_linger(void *job)
{
    pthread_setspecific(last_key, (void *)1);
    return work(job);
}

static void lingering(int argc, char **argv)
{
    struct job job = {"lingers", 80 * MS, 0, 0};
    struct timespec two_looks = {2, 0};
    pthread_key_create(&last_key, linger);
    if (pthread_create(&job.thread, NULL, work_and_linger, &job))
        abort();
    while (!is_last_round)
        usleep(1000);
    nanosleep(&two_looks, NULL);
    burn(100 * MS); /* a process without a sample writes no profile; the thread's may have come before the tables */
    printf("%s %lld\n", job.name, (long long)job.clock_ns);
}

/* N threads one after another, of MS each, all with one name. */
static void brief(int argc, char **argv)
{
    int n = atoi(argv[2]);
    int64_t sum_ns = 0;
    for (int i = 0; i < n; i++) {
        struct job job = {"brief", atoi(argv[3]) * MS, 0, 0};
        if (pthread_create(&job.thread, NULL, work, &job))
            abort();
        pthread_join(job.thread, NULL);
        sum_ns += job.clock_ns;
    }
    printf("brief %lld\n", (long long)sum_ns);
}

/* A thread that no library knows. */
static char raw_stack[64 << 10];
static _Atomic int raw_done;
static int64_t raw_ns;

static int raw_work(void *unused)
{
    (void)unused;
    syscall(SYS_prctl, PR_SET_NAME, "raw");
    burn(500 * MS);
    raw_ns = own_ns();
    raw_done = 1;
    syscall(SYS_exit, 0);
    return 0;
}

static void *burn_and_sleep(void *ms)
{
    burn(50 * MS);
    usleep((useconds_t)(uintptr_t)ms * 1000);
    return NULL;
}

/* After MS, if given, in which another thread was there: with that one the profiler's thread and its samples begin. */
static void raw(int argc, char **argv)
{
    pthread_t sleeper;
    if (argc > 2 && !pthread_create(&sleeper, NULL, burn_and_sleep, (void *)(uintptr_t)atoi(argv[2])))
        pthread_join(sleeper, NULL);
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    if (clone(raw_work, raw_stack + sizeof raw_stack, flags, NULL) < 0)
        abort();
    while (!raw_done)
        usleep(1000);
    usleep(5000);
    printf("raw %lld\n", (long long)raw_ns);
}

/* A thread that blocks every signal by the system call, libc's too. */
static void *masked_work(void *unused)
{
    uint64_t all = ~UINT64_C(0), before;
    prctl(PR_SET_NAME, "masked");
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    burn_one(600 * MS);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    burn_two(300 * MS);
    printf("masked %lld\n", (long long)own_ns());
    return unused;
}

/* The same through libc, with everything that sigfillset knows. */
static void *filled_work(void *unused)
{
    sigset_t all;
    prctl(PR_SET_NAME, "filled");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    burn_three(400 * MS);
    printf("filled %lld\n", (long long)own_ns());
    return unused;
}

static void masked(int argc, char **argv)
{
    pthread_t a, b;
    pthread_create(&a, NULL, masked_work, NULL);
    pthread_join(a, NULL);
    pthread_create(&b, NULL, filled_work, NULL);
    pthread_join(b, NULL);
}

static void forked(int argc, char **argv)
{
    burn_one(200 * MS);
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        burn_two(400 * MS);
        printf("child %d %lld\n", (int)getpid(), (long long)own_ns());
        exit(0);
    }
    waitpid(child, NULL, 0);
    burn_three(100 * MS);
    printf("parent %d %lld\n", (int)getpid(), (long long)own_ns());
}

/* One thread, three functions by turns, nothing allocated. */
static void shares(int argc, char **argv)
{
    int64_t one = 0, two = 0, three = 0;
    int seconds = atoi(argv[2]);
    uint64_t random = 88172645463325252u;
    while (one + two + three < seconds * 1000 * MS) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        int64_t ns = MS / 2 + (int64_t)(random % (4 * (uint64_t)MS)); /* not in step with any timer */
        unsigned which = random >> 40 & 15;
        if (which < 3)
            one += burn_one(ns);
        else if (which < 8)
            two += burn_two(ns);
        else
            three += burn_three(ns);
    }
    char line[128];
    int n = snprintf(line, sizeof line, "burn_one %lld\nburn_two %lld\nburn_three %lld\n", (long long)one,
                     (long long)two, (long long)three);
    if (write(1, line, (size_t)n) < 0)
        _exit(1);
}

/* Recursion by a drawn path: hardly any two stacks are the same. */
static __attribute__((noinline)) void left(uint64_t path, int depth);
static __attribute__((noinline)) void right(uint64_t path, int depth);
static void descend(uint64_t path, int depth)
{
    if (!depth)
        burn_one(MS / 2);
    else if (path & 1)
        left(path >> 1, depth - 1);
    else
        right(path >> 1, depth - 1);
    sink++; /* no tail call */
}
static void left(uint64_t path, int depth)
{
    descend(path, depth);
}
static void right(uint64_t path, int depth)
{
    descend(path, depth);
}

static void churn(int argc, char **argv)
{
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < 2000 * atoi(argv[2]); i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        descend(random, 48);
    }
}

/* What the kernel has of this process: its timers, and whether signal 32 has a handler. */
static void idle(int argc, char **argv)
{
    char line[256];
    int n = 0;
    unsigned long long caught = 0;
    burn(50 * MS);
    FILE *timers = fopen("/proc/self/timers", "r"), *status = fopen("/proc/self/status", "r");
    while (timers && fgets(line, sizeof line, timers))
        n += !strncmp(line, "ID:", 3);
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "SigCgt: %llx", &caught);
    printf("timers %d\ncaught %d\n", timers ? n : -1, (int)(caught >> 31 & 1));
}

static void forever(int argc, char **argv)
{
    pthread_t other;
    struct job job = {"other", INT64_MAX / 2, 0, 0};
    if (pthread_create(&other, NULL, work, &job))
        abort();
    work(&job);
}

static const struct {
    const char *name;
    void (*run)(int argc, char **argv);
} modes[] = {{"unequal", unequal}, {"equal", equal},     {"lingering", lingering}, {"brief", brief},
             {"raw", raw},         {"masked", masked},   {"forked", forked},       {"shares", shares},
             {"idle", idle},       {"forever", forever}, {"churn", churn}};

int main(int argc, char **argv)
{
    int64_t begin_ns = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(argv[1], modes[i].name)) {
            modes[i].run(argc, argv);
            printf("begin %lld\n", (long long)begin_ns);
            print_process();
            return 0;
        }
    return 2;
}
