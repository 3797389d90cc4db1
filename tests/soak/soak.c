/* SPDX-License-Identifier: MIT */
/*
 * soak PLUGIN SECONDS PERIOD_MS DUTY_PERCENT - a program that uses every part of the profiler for a long time.
 *
 * Four workers allocate through a set of stacks that changes all the time, keep some blocks, and wait for each other's
 * locks. The main thread opens and closes PLUGIN, forks children that allocate and end in three ways, and once a period
 * prints a line of what the program did and what the profiler says of itself. Together they use about DUTY_PERCENT of
 * one processor. At the end all blocks are freed, the last line is printed with `quiet` before it, and the program
 * waits for the end of its standard input, so that a reader can ask for the last profiles before it exits.
 *
 * A line: seconds, objects and bytes that soak_make made, the same of blocks made per second of processor time, forks,
 * dlopens, and the members of struct deltaprof_stats.
 */
#include <deltaprof/deltaprof.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define KEEP(pointer) \
    __asm__ volatile("" ::"r"(pointer) : "memory") /* also: no tail call, the caller stays on the stack */

enum { N_WORKERS = 4, N_SLOTS = 256, BATCH = 64, MOST_DEPTH = 40, NEW_STACKS_PER_BATCH = 1 };

static _Atomic uint64_t n_objects, n_bytes, cpu_ns;
static atomic_bool stopping;
static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static unsigned duty_percent;

/* The preload object brings it; without that the program runs and prints zeros. */
__attribute__((weak)) int deltaprof_get_stats(struct deltaprof_stats *stats, size_t size_bytes);

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void pause_ns(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    while (nanosleep(&t, &t) && errno == EINTR)
        ;
}

/* xorshift: a program's own random numbers, so that a run can be repeated. */
static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* ---- stacks ----------------------------------------------------------------------------------------------------- */

NOINLINE void *soak_make(size_t size)
{
    void *p = malloc(size);
    KEEP(p);
    if (p) {
        atomic_fetch_add(&n_objects, 1);
        atomic_fetch_add(&n_bytes, size);
    }
    return p;
}

/* Each bit of path says which of two functions calls the next one: 2^40 stacks. */
static void *descend(uint64_t path, unsigned depth, size_t size);

NOINLINE static void *left(uint64_t path, unsigned depth, size_t size)
{
    void *p = descend(path, depth, size);
    KEEP(p);
    return p;
}

NOINLINE static void *right(uint64_t path, unsigned depth, size_t size)
{
    void *p = descend(path, depth, size);
    KEEP(p);
    return p;
}

NOINLINE static void *descend(uint64_t path, unsigned depth, size_t size)
{
    void *p = !depth     ? soak_make(size)
              : path & 1 ? left(path >> 1, depth - 1, size)
                         : right(path >> 1, depth - 1, size);
    KEEP(p);
    return p;
}

/* ---- workers ---------------------------------------------------------------------------------------------------- */

NOINLINE static void contend(unsigned which)
{
    pthread_mutex_lock(&locks[which]);
    pause_ns(200000);
    pthread_mutex_unlock(&locks[which]);
    KEEP(locks);
}

static void *work(void *arg)
{
    uint64_t seed = (uint64_t)(uintptr_t)arg * 0x9E3779B97F4A7C15u + 1, began = clock_ns(CLOCK_THREAD_CPUTIME_ID),
             used = 0;
    uint64_t paths[16];
    void *slots[N_SLOTS] = {NULL};
    for (unsigned i = 0; i < 16; i++)
        paths[i] = draw(&seed);
    for (uint64_t round = 0; !atomic_load(&stopping); round++) {
        for (unsigned i = 0; i < NEW_STACKS_PER_BATCH && round % 16 == 0; i++)
            paths[draw(&seed) % 16] = draw(&seed);
        for (unsigned i = 0; i < BATCH; i++) {
            uint64_t r = draw(&seed), path = paths[r % 16];
            void **slot = &slots[r >> 8 & (N_SLOTS - 1)];
            free(*slot);
            *slot = descend(path, (unsigned)(path >> 41) % MOST_DEPTH, 16 + (r >> 24 & 2047));
        }
        if (round % 32 == 0)
            contend((unsigned)(draw(&seed) % 2));
        uint64_t now = clock_ns(CLOCK_THREAD_CPUTIME_ID) - began, step = now - used;
        atomic_fetch_add(&cpu_ns, step);
        used = now;
        pause_ns(step * (N_WORKERS * 100 - duty_percent) / duty_percent);
    }
    for (unsigned i = 0; i < N_SLOTS; i++)
        free(slots[i]);
    return NULL;
}

/* ---- the main thread -------------------------------------------------------------------------------------------- */

static void open_and_close(const char *plugin)
{
    void *handle = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
    void *(*make)(size_t) = handle ? (void *(*)(size_t))dlsym(handle, "plugin_make") : NULL;
    if (!make) {
        fprintf(stderr, "soak: %s\n", dlerror());
        exit(3);
    }
    free(make(100));
    dlclose(handle);
}

static void fork_one(uint64_t n)
{
    pid_t child = fork();
    if (child < 0) {
        perror("soak: fork");
        exit(3);
    }
    if (child) {
        int status;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
        if (status) {
            fprintf(stderr, "soak: a child ended with status %#x\n", (unsigned)status);
            exit(3);
        }
        return;
    }
    uint64_t seed = n + 1;
    for (unsigned i = 0; i < 100; i++)
        free(descend(draw(&seed), 10, 100));
    if (n % 3 == 0)
        execl("/bin/true", "true", (char *)NULL);
    if (n % 3 == 1)
        _exit(0);
    exit(0);
}

static void print_line(const char *before, double seconds, uint64_t n_forks, uint64_t n_opens)
{
    static uint64_t last_objects, last_ns;
    struct deltaprof_stats s = {0};
    if (deltaprof_get_stats)
        deltaprof_get_stats(&s, sizeof s);
    uint64_t objects = atomic_load(&n_objects), ns = atomic_load(&cpu_ns);
    double rate = ns > last_ns ? (double)(objects - last_objects) * 1e9 / (double)(ns - last_ns) : 0;
    last_objects = objects;
    last_ns = ns;
    printf("%s%.1f", before, seconds);
    const uint64_t numbers[] = {
        objects,      atomic_load(&n_bytes), (uint64_t)rate, n_forks,      n_opens,     s.samples,    s.records,
        s.live,       s.memory_bytes,        s.ticks,        s.overflow,   s.live_full, s.stacks_cut, s.stacks_none,
        s.locks_full, s.write_errors,        s.frames_full,  s.stacks_deep};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        printf(",%llu", (unsigned long long)numbers[i]);
    putchar('\n');
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    double seconds = atof(argv[2]);
    uint64_t period_ns = strtoull(argv[3], NULL, 10) * 1000000, began = clock_ns(CLOCK_MONOTONIC);
    duty_percent = (unsigned)atoi(argv[4]);
    pthread_t workers[N_WORKERS];
    for (uintptr_t i = 0; i < N_WORKERS; i++)
        if (pthread_create(&workers[i], NULL, work, (void *)(i + 1)))
            return 3;
    uint64_t n_forks = 0, n_opens = 0, next = began, now = began;
    for (; now - began < (uint64_t)(seconds * 1e9); now = clock_ns(CLOCK_MONOTONIC)) {
        open_and_close(argv[1]);
        n_opens++;
        fork_one(n_forks++);
        if (now >= next) {
            print_line("", (double)(now - began) / 1e9, n_forks, n_opens);
            next += period_ns;
        }
        pause_ns(period_ns / 10);
    }
    atomic_store(&stopping, true);
    for (int i = 0; i < N_WORKERS; i++)
        pthread_join(workers[i], NULL);
    print_line("quiet,", (double)(now - began) / 1e9, n_forks, n_opens);
    for (char byte; read(STDIN_FILENO, &byte, 1) > 0;)
        ;
    return 0;
}
