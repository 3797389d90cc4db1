/* SPDX-License-Identifier: MIT */
/* victim_linked CONF - linked with the preload object: nothing is profiled before it calls deltaprof_start. */
#include "../../support/tally.h"

#include <deltaprof/deltaprof.h>

static struct tally book[] = {{.function = "make_before"}, {.function = "make_between"}, {.function = "make_stopped"}};

NOINLINE struct block *make_before(void)
{
    return tally_alloc(&book[0], malloc(100), 100);
}

NOINLINE struct block *make_between(void)
{
    return tally_alloc(&book[1], malloc(100), 100);
}

NOINLINE struct block *make_stopped(void)
{
    return tally_alloc(&book[2], malloc(100), 100);
}

static int discard(void *ctx, const void *bytes, size_t n_bytes)
{
    *(size_t *)ctx += n_bytes;
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 0; i < 100; i++)
        make_before();
    int result = deltaprof_start(argv[1]);
    printf("start: %d\n", result);
    for (int i = 0; i < 20000; i++) /* enough for a thread to notice that the profiler is on */
        free(make_between());
    struct deltaprof_stats stats;
    deltaprof_get_stats(&stats, sizeof stats);
    struct deltaprof_delta *delta = deltaprof_delta_new(DELTAPROF_HEAP);
    size_t n = 0;
    result = deltaprof_delta_write(delta, discard, &n);
    printf("write: %d, %s, %s\n", result, n > 100 ? "bytes" : "none", stats.samples ? "samples" : "no samples");
    deltaprof_delta_free(delta);
    result = deltaprof_stop();
    for (int i = 0; i < 100; i++)
        make_stopped();
    printf("stop: %d, again %d\n", result, deltaprof_stop());
    return 0;
}
