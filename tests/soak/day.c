/* SPDX-License-Identifier: MIT */
/*
 * A day of CPU samples in minutes: day TICKS SAMPLES KNOWN. Calls of drawn paths, of which each ends in one of 4096
 * functions; there the thread sends itself the signal of its CPU timer, as the kernel does after 10 ms of CPU time.
 * After SAMPLES of them profiles are written, as every 15 seconds of a day. Of 100 paths KNOWN are drawn from the same
 * 20,000, as a compiler repeats itself; the others are new. Prints how many signals it sent.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH = 40, LEAVES = 4096, KNOWN_PATHS = 20000 };

static siginfo_t info;
static long pid, tid;
static volatile uint64_t sink;

/* The system call itself, so that the function that is interrupted is the caller. */
static inline __attribute__((always_inline)) void take_sample(void)
{
#if defined(__x86_64__)
    long result = SYS_rt_tgsigqueueinfo;
    register siginfo_t *what __asm__("r10") = &info;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(pid), "S"(tid), "d"((long)info.si_signo), "r"(what)
                     : "rcx", "r11", "memory");
#else
    register long number __asm__("x8") = SYS_rt_tgsigqueueinfo, a __asm__("x0") = pid, b __asm__("x1") = tid;
    register long c __asm__("x2") = info.si_signo;
    register siginfo_t *what __asm__("x3") = &info;
    __asm__ volatile("svc #0" : "+r"(a) : "r"(number), "r"(b), "r"(c), "r"(what) : "memory");
#endif
}

#define LEAF(n)                                          \
    static __attribute__((noinline)) void leaf_##n(void) \
    {                                                    \
        sink += 0x##n;                                   \
        take_sample();                                   \
        sink++;                                          \
    }
#define ALL_16(make, n)                                                                                           \
    make(n##0) make(n##1) make(n##2) make(n##3) make(n##4) make(n##5) make(n##6) make(n##7) make(n##8) make(n##9) \
        make(n##a) make(n##b) make(n##c) make(n##d) make(n##e) make(n##f)
#define LEAVES_16(n) ALL_16(LEAF, n)
#define NAMES_16(n)  ALL_16(NAME, n)
#define NAME(n)      leaf_##n,
#define ALL_256(make, n)                                                                                          \
    make(n##0) make(n##1) make(n##2) make(n##3) make(n##4) make(n##5) make(n##6) make(n##7) make(n##8) make(n##9) \
        make(n##a) make(n##b) make(n##c) make(n##d) make(n##e) make(n##f)
#define ALL(make256)                                                                                              \
    make256(0) make256(1) make256(2) make256(3) make256(4) make256(5) make256(6) make256(7) make256(8) make256(9) \
        make256(a) make256(b) make256(c) make256(d) make256(e) make256(f)
#define LEAVES_256(n) ALL_256(LEAVES_16, n)
#define NAMES_256(n)  ALL_256(NAMES_16, n)

ALL(LEAVES_256)
static void (*const leaves[LEAVES])(void) = {ALL(NAMES_256)};

static __attribute__((noinline)) void left(uint64_t path, int depth, unsigned leaf);
static __attribute__((noinline)) void right(uint64_t path, int depth, unsigned leaf);

static __attribute__((always_inline)) inline void descend(uint64_t path, int depth, unsigned leaf)
{
    if (!depth)
        leaves[leaf]();
    else
        (path & 1 ? left : right)(path >> 1, depth - 1, leaf);
    sink++; /* no tail call */
}
static void left(uint64_t path, int depth, unsigned leaf)
{
    descend(path, depth, leaf);
}
static void right(uint64_t path, int depth, unsigned leaf)
{
    descend(path, depth, leaf);
}

static uint64_t draw(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 32) * 0x9E3779B97F4A7C15u;
    return (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
}

/* The signal of this thread's timer, as /proc tells it. */
static int find_timer(void)
{
    char line[256];
    int sig = 0;
    unsigned long long value = 0;
    FILE *timers = fopen("/proc/self/timers", "r");
    while (timers && fgets(line, sizeof line, timers))
        sscanf(line, "signal: %d/%llx", &sig, &value);
    info.si_signo = sig;
    info.si_code = SI_TIMER;
    info.si_value.sival_ptr = (void *)(uintptr_t)value;
    pid = getpid();
    tid = syscall(SYS_gettid);
    return sig ? 0 : -1;
}

int main(int argc, char **argv)
{
    int (*emit)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "deltaprof_emit");
    if (argc < 4 || !emit || find_timer())
        return 2;
    long ticks = atol(argv[1]), samples = atol(argv[2]), n = 0, known = atol(argv[3]);
    for (long tick = 0; tick < ticks; tick++) {
        for (long i = 0; i < samples; i++, n++) {
            uint64_t path = (long)(draw() % 100) < known ? mix(draw() % KNOWN_PATHS) : draw();
            descend(path, DEPTH, (unsigned)(mix(path) % LEAVES));
        }
        if (emit() < 0)
            return 3;
    }
    printf("%ld\n", n);
}
