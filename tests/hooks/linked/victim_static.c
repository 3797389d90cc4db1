/* SPDX-License-Identifier: MIT */
/*
 * victim_static CONF DIRECTORY - linked fully static: its threads allocate in functions of known names and free each
 * other's blocks. It writes a report, writes an answer of http.h to DIRECTORY/answer.pb.gz, and forks a child that runs
 * until its own tick. It prints the counts of both processes at the end.
 */
#include "../../support/tally.h"

#include <deltaprof/http.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>

enum { PLAIN, ZEROED, ALIGNED, GROWN, IN_CHILD, N_FUNCTIONS };
static struct tally book[N_FUNCTIONS] = {
    [PLAIN] = {.function = "make_plain"},       [ZEROED] = {.function = "make_zeroed"},
    [ALIGNED] = {.function = "make_aligned"},   [GROWN] = {.function = "grow_block"},
    [IN_CHILD] = {.function = "make_in_child"},
};
enum { N_THREADS = 4, N_ROUNDS = 5000, N_SLOTS = 256 };
static struct block *_Atomic slots[N_SLOTS];

NOINLINE struct block *make_plain(size_t n)
{
    return tally_alloc(&book[PLAIN], malloc(n), n);
}

NOINLINE struct block *make_zeroed(size_t n)
{
    return tally_alloc(&book[ZEROED], calloc(n, 1), n);
}

NOINLINE struct block *make_aligned(size_t n)
{
    void *ptr = NULL;
    if (n % 2)
        ptr = memalign(64, n);
    else if (posix_memalign(&ptr, 64, n))
        abort();
    return tally_alloc(&book[ALIGNED], ptr, n);
}

NOINLINE struct block *grow_block(struct block *b, size_t n)
{
    tally_free(b->owner, b->n_bytes);
    return tally_alloc(&book[GROWN], n % 2 ? realloc(b, n) : reallocarray(b, 1, n), n);
}

NOINLINE struct block *make_in_child(size_t n)
{
    return tally_alloc(&book[IN_CHILD], malloc(n), n);
}

static void put(struct block *b, unsigned at)
{
    struct block *old = atomic_exchange(&slots[at % N_SLOTS], b);
    if (old) {
        tally_free(old->owner, old->n_bytes);
        free(old);
    }
}

static void *work(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < N_ROUNDS; i++) {
        seed = seed * 1103515245 + 12345;
        size_t n = 32 + (seed >> 8) % 1000;
        put(make_plain(n), seed >> 16);
        put(make_zeroed(n), seed >> 15);
        put(make_aligned(n), seed >> 14);
        put(grow_block(make_plain(n), 2 * n + i % 2), seed >> 13);
    }
    return NULL;
}

static uint64_t n_ticks(void)
{
    struct deltaprof_stats stats;
    deltaprof_get_stats(&stats, sizeof stats);
    return stats.ticks;
}

/* At most a minute. */
static int wait_for_a_tick(void)
{
    uint64_t before = n_ticks();
    for (unsigned i = 0; i < 12000 && n_ticks() == before; i++) {
        put(make_in_child(100), i);
        usleep(5000);
    }
    return n_ticks() == before;
}

static int save(void *ctx, const void *bytes, size_t n_bytes)
{
    return write(*(int *)ctx, bytes, n_bytes) == (ssize_t)n_bytes ? 0 : -1;
}

static int head(void *ctx, const struct deltaprof_http_reply *reply)
{
    return deltaprof_http_status(reply) == 200 ? 0 : -1;
}

int main(int argc, char **argv)
{
    if (deltaprof_start(argv[1]))
        return 1;
    pthread_t threads[N_THREADS];
    for (uintptr_t i = 0; i < N_THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    if (deltaprof_emit())
        return 2;
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    struct deltaprof_http_request request = {.method = "GET", .target = "/debug/pprof/allocs"};
    char path[4096];
    snprintf(path, sizeof path, "%s/answer.pb.gz", argv[2]);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (deltaprof_http_answer(&request, head, save, &fd) || close(fd))
        return 3;
    pid_t child = fork();
    if (child == 0) {
        tally_forked(book, N_FUNCTIONS);
        if (wait_for_a_tick())
            return 5;
    }
    int status = 0;
    if (child < 0 || (child && (waitpid(child, &status, 0) < 0 || status)))
        return 4;
    tally_print(book, N_FUNCTIONS);
    return 0;
}
