/* SPDX-License-Identifier: MIT */
/*
 * Runs under the profiler and writes, at two times, the profile since start (by a new consumer) and the delta of one
 * kept consumer: DIR/all.1.pb.gz, DIR/all.2.pb.gz, DIR/delta.2.pb.gz.
 */
#include <deltaprof/deltaprof.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *blocks[4000];

static __attribute__((noinline)) void small(int i)
{
    blocks[i] = malloc(16 + (size_t)i % 100);
}

static __attribute__((noinline)) void large(int i)
{
    blocks[i] = calloc(1, 5000);
}

static __attribute__((noinline)) void deeper(int depth, int i)
{
    if (depth)
        deeper(depth - 1, i);
    else
        small(i);
    __asm__ volatile(""); /* no tail calls */
}

static void work(int from, int to)
{
    for (int i = from; i < to; i++) {
        if (i % 7 == 0)
            large(i);
        else
            deeper(i % 20, i);
        __asm__ volatile("");
    }
    for (int i = from; i < to; i += 3) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

/* Does not allocate: allocations made while writing would be between the two dumps. */
static int to_file(void *file, const void *bytes, size_t n_bytes)
{
    return write(*(int *)file, bytes, n_bytes) == (ssize_t)n_bytes ? 0 : -EIO;
}

static int write_to(const char *dir, const char *name, struct deltaprof_delta *delta)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.pb.gz", dir, name);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0)
        return -errno;
    int result = deltaprof_delta_write(delta, to_file, &file);
    return close(file) ? -errno : result;
}

int main(int argc, char **argv)
{
    struct deltaprof_delta *first = deltaprof_delta_new(DELTAPROF_HEAP);
    struct deltaprof_delta *second = deltaprof_delta_new(DELTAPROF_HEAP);
    struct deltaprof_delta *own = deltaprof_delta_new(DELTAPROF_HEAP);
    if (argc != 2 || !first || !second || !own)
        return 2;
    work(0, 2000);
    int failed = deltaprof_delta_skip(own) || write_to(argv[1], "all.1", first);
    work(2000, 4000);
    failed |= write_to(argv[1], "delta.2", own) || write_to(argv[1], "all.2", second);
    return failed;
}
