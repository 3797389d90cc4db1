/* SPDX-License-Identifier: MIT */
/*
 * server.c - a program that profiles itself and writes a delta on request.
 *
 * The program links the interposers (pkg-config deltaprof-preload), so its own allocations and those of its libraries
 * are seen without LD_PRELOAD. The library writes no files. Here a round of the loop stands for a request. In a real
 * server the request's handler writes the delta, and `put` sends to the client. If the client disconnects before the
 * end, put fails, and the next delta covers this time as well.
 *
 *     cc server.c $(pkg-config --cflags --libs deltaprof-preload) && ./a.out profile
 *     go tool pprof -top profile.0.pb.gz
 */
#include <deltaprof/deltaprof.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int put(void *ctx, const void *bytes, size_t n_bytes)
{
    return fwrite(bytes, 1, n_bytes, ctx) == n_bytes ? 0 : -EIO;
}

/* Writes the changes since the last delta that was written completely. */
static int answer(struct deltaprof_delta *delta, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return -errno;
    int err = deltaprof_delta_write_uncommitted(delta, put, file);
    if (fclose(file) && !err)
        err = -EIO;
    if (err)
        deltaprof_delta_abandon(delta);
    else
        deltaprof_delta_commit(delta);
    return err;
}

static char *sessions[1000];
static size_t n_sessions;

__attribute__((noinline)) static void open_session(void)
{
    sessions[n_sessions++] = calloc(1, 512);
}

__attribute__((noinline)) static void handle_request(void)
{
    char *copy = strdup("GET /index.html"), *rest = copy;
    strsep(&rest, " "); /* splits the method from the path */
    free(copy);
}

int main(int argc, char **argv)
{
    const char *prefix = argc > 1 ? argv[1] : "profile";
    /* Every allocation, for the example; leave heap_rate out in a server. No `out`: the library writes no files. */
    int err = deltaprof_start("heap_rate=1");
    struct deltaprof_delta *delta = err ? NULL : deltaprof_delta_new(DELTAPROF_HEAP);
    if (!delta) {
        fprintf(stderr, "cannot start the profiler: %s\n", strerror(err ? -err : errno));
        return 1;
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 500; i++) {
            open_session();
            handle_request();
        }
        char path[4096];
        snprintf(path, sizeof path, "%s.%d.pb.gz", prefix, round);
        err = answer(delta, path);
        if (err) {
            fprintf(stderr, "%s: %s\n", path, strerror(-err));
            return 1;
        }
        printf("wrote %s\n", path);
    }
    deltaprof_delta_free(delta);
    while (n_sessions > 0)
        free(sessions[--n_sessions]);
    return 0;
}
