/* SPDX-License-Identifier: MIT */
/*
 * A producer, and a reader that leaves at a random moment: every byte arrives in order or the producer gets an error,
 * and the reply changes its owner exactly once.
 */
#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "host/http/body.h"

#define CHECK(x) ((x) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x), abort()))

struct reply {
    size_t n_total, piece;
    int result;
    atomic_int orphaned;
};

static int produce(void *arg, dp_pprof_write_fn fn, void *ctx)
{
    struct reply *r = arg;
    static _Thread_local unsigned char bytes[9000];
    for (size_t at = 0; at < r->n_total;) {
        size_t n = r->piece < r->n_total - at ? r->piece : r->n_total - at;
        for (size_t i = 0; i < n; i++)
            bytes[i] = (unsigned char)((at + i) * 31 >> 3);
        int err = fn(ctx, bytes, n);
        if (err)
            return err;
        at += n;
    }
    return r->result;
}

static void orphan(void *arg, int result)
{
    struct reply *r = arg;
    CHECK(result == 0 || result == -EPIPE || result == r->result);
    atomic_store(&r->orphaned, 1);
}

static void one(unsigned seed)
{
    struct reply *r = calloc(1, sizeof *r);
    r->n_total = (size_t)rand_r(&seed) % 400000;
    r->piece = 1 + (size_t)rand_r(&seed) % 9000;
    r->result = rand_r(&seed) % 4 ? 0 : -EIO;
    size_t leave_at = rand_r(&seed) % 2 ? SIZE_MAX : (size_t)rand_r(&seed) % 400000;
    int err = 0;
    struct dp_http_body *b = dp_http_body_start(produce, orphan, r, &err);
    CHECK(b);
    size_t n_read = 0;
    ssize_t n = -EAGAIN;
    static _Thread_local unsigned char buf[7000];
    while (n_read < leave_at) {
        n = dp_http_body_read(b, buf, 1 + (size_t)rand_r(&seed) % sizeof buf);
        if (n == -EAGAIN) {
            sched_yield();
            continue;
        }
        if (n <= 0)
            break;
        for (ssize_t i = 0; i < n; i++)
            CHECK(buf[i] == (unsigned char)((n_read + (size_t)i) * 31 >> 3));
        n_read += (size_t)n;
    }
    if (n != -EAGAIN && n <= 0) {
        CHECK(n_read == r->n_total);
        CHECK(n == r->result);
    }
    int result = 1;
    if (dp_http_body_close(b, &result)) {
        CHECK(result == r->result);
        CHECK(!atomic_load(&r->orphaned));
    } else {
        for (int i = 0; !atomic_load(&r->orphaned); i++) {
            CHECK(i < 60000);
            usleep(1000);
        }
    }
    free(r);
}

int main(int argc, char **argv)
{
    unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 1500;
    for (unsigned seed = 1; seed <= n; seed++)
        one(seed);
    for (int i = 0; dp_http_body_count(); i++) { /* a producer's last access may be later than its orphan call */
        CHECK(i < 60000);
        usleep(1000);
    }
    CHECK(dp_mem_used() == 0);
    printf("%u replies\n", n);
    return 0;
}
