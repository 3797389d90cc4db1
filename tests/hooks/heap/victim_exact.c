/* SPDX-License-Identifier: MIT */
/*
 * victim_exact PLUGIN [drain] - eight threads that allocate in functions of known names, free each other's blocks, grow
 * and shrink, open and close a library, and, after the first line on stdin, fork. At the end of stdin each process
 * prints its counts. With `drain` everything is freed before.
 */
#include "../../support/tally.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>

enum {
    SMALL,
    LARGE,
    ZEROED,
    ALIGNED,
    PAGED,
    GROWN,
    SHRUNK,
    DEEP,
    IN_THREAD,
    IN_PLUGIN,
    IN_CHILD,
    IN_CHILD_THREAD,
    N_FUNCTIONS
};
static struct tally book[N_FUNCTIONS] = {
    [SMALL] = {.function = "make_small"},         [LARGE] = {.function = "make_large"},
    [ZEROED] = {.function = "make_zeroed"},       [ALIGNED] = {.function = "make_aligned"},
    [PAGED] = {.function = "make_paged"},         [GROWN] = {.function = "grow_block"},
    [SHRUNK] = {.function = "shrink_block"},      [DEEP] = {.function = "make_deep"},
    [IN_THREAD] = {.function = "make_in_thread"}, [IN_PLUGIN] = {.function = "plugin_make"},
    [IN_CHILD] = {.function = "make_in_child"},   [IN_CHILD_THREAD] = {.function = "make_in_child_thread"},
};

#define N_SLOTS 2048
static struct block *_Atomic slots[N_SLOTS];
static atomic_int may_fork, stopping;
static pthread_barrier_t quiet;
static const char *plugin;

static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

NOINLINE struct block *make_small(size_t n)
{
    return tally_alloc(&book[SMALL], malloc(n), n);
}

NOINLINE struct block *make_large(size_t n)
{
    return tally_alloc(&book[LARGE], malloc(n), n);
}

NOINLINE struct block *make_zeroed(size_t n)
{
    return tally_alloc(&book[ZEROED], calloc(3, n), 3 * n);
}

NOINLINE struct block *make_aligned(size_t n)
{
    void *ptr = NULL;
    if (posix_memalign(&ptr, 256, n))
        abort();
    return tally_alloc(&book[ALIGNED], ptr, n);
}

NOINLINE struct block *make_paged(size_t n)
{
    return tally_alloc(&book[PAGED], n & 1 ? valloc(n) : n & 2 ? aligned_alloc(64, n) : memalign(128, n), n);
}

NOINLINE struct block *make_in_thread(size_t n)
{
    return tally_alloc(&book[IN_THREAD], malloc(n), n);
}

NOINLINE struct block *make_deep(size_t n, int depth)
{
    struct block *b = depth ? make_deep(n, depth - 1) : tally_alloc(&book[DEEP], malloc(n), n);
    __asm__ volatile("" ::: "memory");
    return b;
}

NOINLINE struct block *grow_block(struct block *old)
{
    struct tally *owner = old->owner;
    size_t before = old->n_bytes, n = before + 40;
    struct block *b = tally_alloc(&book[GROWN], realloc(old, n), n);
    tally_free(owner, before);
    return b;
}

NOINLINE struct block *shrink_block(struct block *old)
{
    struct tally *owner = old->owner;
    size_t before = old->n_bytes, n = before / 2 < sizeof *old ? sizeof *old : before / 2;
    struct block *b = tally_alloc(&book[SHRUNK], n & 1 ? reallocarray(old, n, 1) : realloc(old, n), n);
    tally_free(owner, before);
    return b;
}

static void release(struct block *b)
{
    if (!b)
        return;
    tally_free(b->owner, b->n_bytes);
    free(b);
}

static struct block *turn(uint64_t *seed, struct block *old)
{
    uint64_t r = next(seed);
    size_t n = 16 + r % 700;
    switch (r >> 32 & 15) {
    case 0:
    case 1:
        release(old);
        return make_small(n);
    case 2:
        release(old);
        return make_large(n * 50);
    case 3:
        release(old);
        return make_zeroed(n);
    case 4:
        release(old);
        return make_aligned(n);
    case 5:
        release(old);
        return make_paged(n);
    case 6:
        release(old);
        return make_deep(n, (int)(r >> 40 & 31));
    case 7:
        release(old);
        return make_in_thread(n);
    case 8:
    case 9:
    case 10:
        return old ? grow_block(old) : NULL;
    case 11:
    case 12:
        return old ? shrink_block(old) : NULL;
    default:
        release(old);
        return NULL;
    }
}

/* One thread opens and closes the same path for ever; the others fork. */
static void use_plugin(uint64_t *seed)
{
    void *library = dlopen(plugin, RTLD_NOW);
    void *(*make)(size_t) = library ? (void *(*)(size_t))dlsym(library, "plugin_make") : NULL;
    if (!make)
        abort();
    for (int i = 0; i < 20; i++) {
        size_t n = 16 + next(seed) % 900;
        struct block *b = tally_alloc(&book[IN_PLUGIN], make(n), n);
        release(atomic_exchange(&slots[next(seed) % N_SLOTS], b));
    }
    dlclose(library);
}

NOINLINE struct block *make_in_child(size_t n)
{
    return tally_alloc(&book[IN_CHILD], malloc(n), n);
}

NOINLINE struct block *make_in_child_thread(size_t n)
{
    return tally_alloc(&book[IN_CHILD_THREAD], malloc(n), n);
}

static void *child_thread(void *arg)
{
    for (int i = 0; i < 50; i++)
        release(make_in_child_thread(100));
    return make_in_child_thread(1000);
}

/*
 * A child of a process with other threads: their counts may be inconsistent, so it prints only those of its own
 * functions. If all threads are stopped before the fork, the child also prints inherited blocks.
 */
static void child(uint64_t seed, int whole)
{
    tally_forked(book, N_FUNCTIONS);
    for (int i = 0; i < 200; i++) {
        struct block *b = make_in_child(16 + next(&seed) % 300);
        if (i % 3)
            release(b);
        else if (whole)
            release(atomic_exchange(&slots[i], b));
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, child_thread, NULL) || pthread_join(thread, NULL))
        abort();
    if (whole) {
        tally_print(book, N_FUNCTIONS);
        exit(0);
    }
    tally_print(&book[IN_CHILD], 2);
    _exit(0); /* exit waits for a lock of libc's, which a dlclose in another thread may have held at the fork */
}

static void fork_and_wait(uint64_t seed, int whole)
{
    pid_t pid = fork();
    if (pid == 0)
        child(seed, whole);
    int status = -1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
        dprintf(STDERR_FILENO, "child: status %x\n", status);
        _exit(8);
    }
}

static void *worker(void *arg)
{
    uint64_t seed = 0x9E3779B97F4A7C15u * ((uintptr_t)arg + 1), turns = 0;
    while (!atomic_load(&stopping)) {
        for (int i = 0; i < 256; i++) {
            size_t slot = next(&seed) % N_SLOTS;
            struct block *old = atomic_exchange(&slots[slot], NULL);
            release(atomic_exchange(&slots[slot], turn(&seed, old)));
        }
        turns++;
        if ((uintptr_t)arg == 0 && turns % 8 == 0)
            use_plugin(&seed);
        if ((uintptr_t)arg == 1 && turns % 200 == 100 && atomic_load(&may_fork))
            fork_and_wait(seed, 0);
    }
    pthread_barrier_wait(&quiet);
    pthread_barrier_wait(&quiet);
    return NULL;
}

static void stay(void)
{
    char line[64];
    for (ssize_t n = 1; n > 0 || (n < 0 && errno == EINTR);) {
        n = read(STDIN_FILENO, line, sizeof line);
        if (n > 0)
            atomic_store(&may_fork, 1);
    }
}

int main(int argc, char **argv)
{
    pthread_t threads[8];
    if (argc < 2)
        return 2;
    plugin = argv[1];
    pthread_barrier_init(&quiet, NULL, 9);
    for (uintptr_t i = 0; i < 8; i++)
        if (pthread_create(&threads[i], NULL, worker, (void *)i))
            return 3;
    stay();
    atomic_store(&stopping, 1);
    pthread_barrier_wait(&quiet);
    fork_and_wait(42, 1);
    pthread_barrier_wait(&quiet);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    if (argc > 2)
        for (int i = 0; i < N_SLOTS; i++)
            release(atomic_exchange(&slots[i], NULL));
    tally_print(book, N_FUNCTIONS);
    return 0;
}
