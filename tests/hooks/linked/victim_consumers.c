/* SPDX-License-Identifier: MIT */
/*
 * victim_consumers DIRECTORY SECONDS - four threads allocate, free and realloc, for SECONDS at least; three consumers
 * write at least six deltas each, at different rates, and most of their writes fail: the sink stops half way, or the
 * write is abandoned. Successful ones go to DIRECTORY/consumer.N.SEQ.heap.pb.gz, the program's own counts to stdout.
 * Each consumer's files must add up to these counts.
 */
#include "../../support/tally.h"

#include <deltaprof/deltaprof.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

static struct tally book[] = {{.function = "make_small"}, {.function = "make_zeroed"}, {.function = "resize"}};
enum { SMALL, ZEROED, RESIZED, N_FUNCTIONS };

#define N_SLOTS 512
static struct block *_Atomic slots[N_SLOTS];
static atomic_int stopping, n_kept[3];
static const char *directory;

NOINLINE struct block *make_small(size_t n)
{
    return tally_alloc(&book[SMALL], malloc(n), n);
}

NOINLINE struct block *make_zeroed(size_t n)
{
    return tally_alloc(&book[ZEROED], calloc(1, n), n);
}

NOINLINE struct block *resize(struct block *old, size_t n)
{
    struct tally *owner = old->owner;
    size_t before = old->n_bytes;
    struct block *b = tally_alloc(&book[RESIZED], realloc(old, n), n);
    tally_free(owner, before);
    return b;
}

static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

static void *work(void *arg)
{
    uint64_t seed = ((uintptr_t)arg + 1) * 0x9E3779B97F4A7C15u;
    while (!atomic_load(&stopping)) {
        uint64_t r = next(&seed);
        size_t n = 16 + r % 500;
        struct block *old = atomic_exchange(&slots[r >> 32 & (N_SLOTS - 1)], NULL);
        if (old && r >> 20 & 1) {
            old = resize(old, n);
        } else {
            if (old) {
                tally_free(old->owner, old->n_bytes);
                free(old);
            }
            old = r >> 21 & 1 ? make_small(n) : make_zeroed(n);
        }
        old = atomic_exchange(&slots[next(&seed) & (N_SLOTS - 1)], old);
        if (old) {
            tally_free(old->owner, old->n_bytes);
            free(old);
        }
    }
    return NULL;
}

struct buffer {
    char *bytes;
    size_t n, size, fails_at;
};

static int into(void *ctx, const void *bytes, size_t n_bytes)
{
    struct buffer *b = ctx;
    if (b->n + n_bytes > b->fails_at)
        return -EIO;
    if (b->n + n_bytes > b->size)
        return -ENOSPC;
    memcpy(b->bytes + b->n, bytes, n_bytes);
    b->n += n_bytes;
    return 0;
}

static void keep(long consumer, int seq, const struct buffer *b)
{
    char path[512];
    snprintf(path, sizeof path, "%s/consumer.%ld.%04d.heap.pb.gz", directory, consumer + 1, seq);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || write(fd, b->bytes, b->n) != (ssize_t)b->n || close(fd))
        abort();
    n_kept[consumer]++;
}

static void must(int result, int expected)
{
    if (result != expected) {
        dprintf(STDERR_FILENO, "%d, not %d\n", result, expected);
        _exit(7);
    }
}

static void *consume(void *arg)
{
    uint64_t seed = ((uintptr_t)arg + 77) * 0x9E3779B97F4A7C15u;
    static char memory[3][4 << 20];
    struct buffer b = {.bytes = memory[(uintptr_t)arg], .size = sizeof memory[0]};
    struct deltaprof_delta *delta = deltaprof_delta_new(DELTAPROF_HEAP);
    int seq = 1, last;
    do {
        last = atomic_load(&stopping) == 2;
        uint64_t r = next(&seed);
        b.n = 0;
        b.fails_at = last || r & 1 ? SIZE_MAX : r >> 8 & 1023;
        if (!last && r & 2) {
            int err = deltaprof_delta_write_uncommitted(delta, into, &b);
            if (err == 0) {
                must(deltaprof_delta_write(delta, into, &b), -EBUSY);
                if (r & 4) {
                    must(deltaprof_delta_commit(delta), 0);
                    keep((long)(uintptr_t)arg, seq++, &b);
                } else {
                    must(deltaprof_delta_abandon(delta), 0);
                }
            } else {
                must(err, -EIO);
                must(deltaprof_delta_commit(delta), -EINVAL);
            }
        } else {
            int err = deltaprof_delta_write(delta, into, &b);
            if (err == 0)
                keep((long)(uintptr_t)arg, seq++, &b);
            else
                must(err, -EIO);
        }
        usleep(2000 + (unsigned)(r >> 40 & 8191));
    } while (!last);
    deltaprof_delta_free(delta);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t workers[4], consumers[3];
    if (argc < 3 || deltaprof_start("heap_rate=1,interval=0,out=none"))
        return 3;
    directory = argv[1];
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&workers[i], NULL, work, (void *)i);
    for (uintptr_t i = 0; i < 3; i++)
        pthread_create(&consumers[i], NULL, consume, (void *)i);
    usleep((useconds_t)(atof(argv[2]) * 1e6));
    while (n_kept[0] < 6 || n_kept[1] < 6 || n_kept[2] < 6)
        usleep(1000);
    atomic_store(&stopping, 1);
    for (int i = 0; i < 4; i++)
        pthread_join(workers[i], NULL);
    atomic_store(&stopping, 2);
    for (int i = 0; i < 3; i++)
        pthread_join(consumers[i], NULL);
    tally_print(book, N_FUNCTIONS);
    return 0;
}
