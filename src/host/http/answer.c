/* SPDX-License-Identifier: MIT */
/*
 * host/http/answer.c - answers a request in one call, for hosts that may wait: reads the reply and passes it to the
 * host's functions.
 */
#include <deltaprof/http.h>

#include <errno.h>
#include <time.h>

static void wait_for(struct deltaprof_http_reply *r)
{
    for (int64_t wait_ns; (wait_ns = deltaprof_http_wait_ns(r)) > 0;) {
        struct timespec t = {wait_ns / 1000000000, wait_ns % 1000000000};
        nanosleep(&t, NULL);
    }
}

int deltaprof_http_answer(const struct deltaprof_http_request *request, deltaprof_http_head_fn head,
                          deltaprof_write_fn write, void *ctx)
{
    struct deltaprof_http_reply *r;
    char buf[16384];
    int err = deltaprof_http_begin(request, &r);
    if (err)
        return err;
    wait_for(r);
    err = head(ctx, r);
    while (!err) {
        wait_for(r);
        ssize_t n = deltaprof_http_read(r, buf, sizeof buf);
        if (n == -EAGAIN)
            continue;
        if (n <= 0) {
            err = (int)n;
            break;
        }
        err = write(ctx, buf, (size_t)n);
    }
    deltaprof_http_end(r, !err);
    return err;
}
