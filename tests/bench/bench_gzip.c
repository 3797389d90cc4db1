/* SPDX-License-Identifier: MIT */
/*
 * Compares the gzip module with zlib's level 1 on the same bytes, in turns: the profiles named on the command line,
 * gzipped or raw. python3.heap.pb.gz has every allocation of a python3 that imports a dozen modules.
 */
#include "bench.h"
#include "base/mem.h"
#include "pprof/gzip.h"
#include "pprof/decode_input.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

static int count(void *ctx, const void *bytes, size_t n_bytes)
{
    *(size_t *)ctx += n_bytes;
    return 0;
}

static double ours(const struct dp_decode_input *input, struct dp_gzip *gz, size_t *n_out)
{
    size_t n_all = input->bytes.n;
    *n_out = 0;
    double begin = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    dp_gzip_reset(gz, count, n_out);
    for (size_t at = 0, n; at < n_all; at += n) { /* as the encoder gives it */
        n = n_all - at < 65536 ? n_all - at : 65536;
        if (dp_gzip_write(gz, input->bytes.at + at, n))
            abort();
    }
    if (dp_gzip_finish(gz))
        abort();
    return bench_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
}

static double zlibs(const struct dp_decode_input *input, size_t *n_out)
{
    static uint8_t out[65536];
    double begin = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    z_stream z = {.next_in = input->bytes.at, .avail_in = (uInt)input->bytes.n};
    if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    do {
        z.next_out = out;
        z.avail_out = sizeof out;
    } while (deflate(&z, Z_FINISH) != Z_STREAM_END);
    *n_out = z.total_out;
    deflateEnd(&z);
    return bench_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
}

static void bench(const char *path)
{
    double a[BENCH_ROUNDS_MAX], b[BENCH_ROUNDS_MAX];
    int rounds = bench_rounds(), fd = open(path, O_RDONLY | O_CLOEXEC);
    struct dp_decode_input input = {0};
    struct dp_decode_error error;
    size_t n_ours = 0, n_zlibs = 0;
    if (fd < 0 || dp_decode_input_read(&input, fd, DP_DECODE_LIMIT, &error))
        abort();
    close(fd);
    struct dp_gzip *gz = dp_gzip_new(count, &n_ours);
    for (int i = 0; i < rounds; i++) {
        a[i] = ours(&input, gz, &n_ours);
        b[i] = zlibs(&input, &n_zlibs);
    }
    double n = (double)input.bytes.n, ours_ns = bench_median(a, rounds), zlibs_ns = bench_median(b, rounds);
    printf("# %s, %zu bytes\n", path, input.bytes.n);
    bench_print("gzip_speed", n / ours_ns * 1e3, "MB/s");
    bench_print("zlib_1_speed", n / zlibs_ns * 1e3, "MB/s");
    bench_print("gzip_speed_by_zlib_1", zlibs_ns / ours_ns, "times");
    bench_print("gzip_size_by_zlib_1", (double)n_ours / (double)n_zlibs, "times");
    dp_gzip_free(gz);
    dp_decode_input_fini(&input);
}

int main(int argc, char **argv)
{
    dp_mem_cap(SIZE_MAX);
    for (int i = 1; i < argc; i++)
        bench(argv[i]);
    return 0;
}
