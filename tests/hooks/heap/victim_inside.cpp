/* SPDX-License-Identifier: MIT */
/*
 * victim_inside - linked with an allocator's static library. Four threads allocate in functions of known names through
 * every function of that allocator, free each other's blocks and grow and shrink some; then a forked child does the
 * same. Prints, per process, what each function made and what is left of it.
 */
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <mutex>
#include <new>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#define NOINLINE extern "C" __attribute__((noinline))

/* jemalloc's own functions, where it is jemalloc. */
extern "C" {
void *mallocx(size_t n, int flags) __attribute__((weak));
void *rallocx(void *ptr, size_t n, int flags) __attribute__((weak));
size_t xallocx(void *ptr, size_t n, size_t extra, int flags) __attribute__((weak));
void sdallocx(void *ptr, size_t n, int flags) __attribute__((weak));
}

enum {
    BY_MALLOC,
    BY_CALLOC,
    BY_REALLOC,
    BY_POSIX,
    BY_ALIGNED,
    BY_MEMALIGN,
    BY_NEW,
    BY_ARRAY,
    BY_NOTHROW,
    BY_OVERALIGNED,
    BY_JE_OWN,
    BY_IMALLOC_OWN,
    BY_MALLOCX,
    BY_RALLOCX,
    N_WAYS
};
static const char *const names[] = {"by_malloc",   "by_calloc",        "by_realloc", "by_posix",   "by_aligned",
                                    "by_memalign", "by_new",           "by_array",   "by_nothrow", "by_overaligned",
                                    "je_own",      "imalloc_body_own", "by_mallocx", "by_rallocx"};

struct tally {
    std::atomic<long> made{0}, made_bytes{0}, left{0}, left_bytes{0};
};
static tally tallies[N_WAYS];

struct block {
    void *ptr;
    size_t n;
    int way;
};

static block made(int way, void *ptr, size_t n)
{
    memset(ptr, way, n);
    tallies[way].made++;
    tallies[way].made_bytes += (long)n;
    tallies[way].left++;
    tallies[way].left_bytes += (long)n;
    return {ptr, n, way};
}

static void gone(const block &b)
{
    tallies[b.way].left--;
    tallies[b.way].left_bytes -= (long)b.n;
}

NOINLINE void *by_malloc(size_t n)
{
    return malloc(n);
}
NOINLINE void *by_calloc(size_t n)
{
    return calloc(n / 8, 8);
}
NOINLINE void *by_realloc(void *old, size_t n)
{
    return realloc(old, n);
}
NOINLINE void *by_posix(size_t n)
{
    void *ptr;
    return posix_memalign(&ptr, 64, n) ? nullptr : ptr;
}
NOINLINE void *by_aligned(size_t n)
{
    return aligned_alloc(64, n);
}
NOINLINE void *by_memalign(size_t n)
{
    return memalign(64, n);
}
NOINLINE void *by_new(size_t n)
{
    return ::operator new(n);
}
NOINLINE void *by_array(size_t n)
{
    return ::operator new[](n);
}
NOINLINE void *by_nothrow(size_t n)
{
    return ::operator new(n, std::nothrow);
}
NOINLINE void *by_overaligned(size_t n)
{
    return ::operator new(n, std::align_val_t(64));
}
/* Functions of the program that are named like jemalloc's. */
NOINLINE void *je_own(size_t n)
{
    return malloc(n);
}
NOINLINE void *imalloc_body_own(size_t n)
{
    return malloc(n);
}
NOINLINE void *by_mallocx(size_t n)
{
    return mallocx(n, 0);
}
NOINLINE void *by_rallocx(void *old, size_t n)
{
    return rallocx(old, n, 0);
}

static block make(int way, size_t n)
{
    switch (way) {
    case BY_MALLOC:
        return made(way, by_malloc(n), n);
    case BY_CALLOC:
        return made(way, by_calloc(n), n);
    case BY_REALLOC:
        return made(way, by_realloc(nullptr, n), n);
    case BY_POSIX:
        return made(way, by_posix(n), n);
    case BY_ALIGNED:
        return made(way, by_aligned(n), n);
    case BY_MEMALIGN:
        return made(way, by_memalign(n), n);
    case BY_NEW:
        return made(way, by_new(n), n);
    case BY_ARRAY:
        return made(way, by_array(n), n);
    case BY_NOTHROW:
        return made(way, by_nothrow(n), n);
    case BY_OVERALIGNED:
        return made(way, by_overaligned(n), n);
    case BY_JE_OWN:
        return made(way, je_own(n), n);
    case BY_IMALLOC_OWN:
        return made(way, imalloc_body_own(n), n);
    default:
        return made(BY_MALLOCX, by_mallocx(n), n);
    }
}

static void unmake(const block &b)
{
    gone(b);
    switch (b.way) {
    case BY_NEW:
        ::operator delete(b.ptr, b.n);
        break;
    case BY_ARRAY:
        ::operator delete[](b.ptr);
        break;
    case BY_NOTHROW:
        ::operator delete(b.ptr, std::nothrow);
        break;
    case BY_OVERALIGNED:
        ::operator delete(b.ptr, b.n, std::align_val_t(64));
        break;
    case BY_MALLOCX:
        sdallocx(b.ptr, b.n, 0);
        break;
    default:
        free(b.ptr);
    }
}

/* Another size for a block of the malloc family, in place or not. */
static block resize(const block &b, size_t n)
{
    bool is_x = mallocx && n % 128;
    gone(b);
    return is_x ? made(BY_RALLOCX, by_rallocx(b.ptr, n), n) : made(BY_REALLOC, by_realloc(b.ptr, n), n);
}

static std::mutex shared_lock;
static std::vector<block> *shared;

static void work(unsigned seed)
{
    std::vector<block> mine;
    int n_ways = mallocx ? BY_RALLOCX : BY_MALLOCX;
    for (int i = 0; i < 3000; i++) {
        unsigned r = (unsigned)rand_r(&seed);
        size_t n = 64 * (1 + r % (r % 16 ? 20 : 2000)); /* as tcmalloc rounds up aligned sizes */
        mine.push_back(make((int)(r / 64 % (unsigned)n_ways), n));
        if (r / 1024 % 3 == 0 && mine.back().way <= BY_MEMALIGN)
            mine.back() = resize(mine.back(), 64 * (1 + r / 4096 % 60));
        if (r / 8192 % 2) {
            std::lock_guard<std::mutex> guard(shared_lock);
            std::swap(mine[r % mine.size()], (*shared)[r / 4 % shared->size()]);
        }
        if (r / 16384 % 4) {
            std::swap(mine[r % mine.size()], mine.back());
            unmake(mine.back());
            mine.pop_back();
        }
    }
}

static void report()
{
    for (int way = 0; way < N_WAYS; way++)
        printf("%d %s %ld %ld %ld %ld\n", (int)getpid(), names[way], tallies[way].made.load(),
               tallies[way].made_bytes.load(), tallies[way].left.load(), tallies[way].left_bytes.load());
    fflush(stdout);
}

static void work_in_threads()
{
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; i++)
        threads.emplace_back(work, 7 + i);
    for (auto &thread : threads)
        thread.join();
}

/* Of the preload object, if there is one. */
extern "C" int deltaprof_emit() __attribute__((weak));

int main()
{
    shared = new std::vector<block>;
    for (int i = 0; i < 100; i++)
        shared->push_back(make(BY_MALLOC, 64));
    work_in_threads();
    if (deltaprof_emit)
        (void)deltaprof_emit(); /* a child that was forked before the first report may write addresses without names */
    pid_t child = fork();
    if (child == 0) { /* what was allocated before is the parent's, what is in use is inherited */
        for (auto &t : tallies)
            t.made = t.made_bytes = 0;
        work_in_threads();
        report();
        exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    report();
    return status != 0;
}
