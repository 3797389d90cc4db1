/* SPDX-License-Identifier: MIT */
/*
 * modules/http_survive.c - replaces libmicrohttpd's panic function, so that a panic does not end the process. The
 * library calls it when its own state is broken; it must not return, and by default it ends the process. Here the
 * profiler's thread leaves the library by a long jump instead. There is one panic function per process; for a server of
 * the host it still does what the library does by default.
 */
#include "modules/http_survive.h"

#include "base/atomic.h"

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    pthread_t thread;
    _Atomic bool serves; /* stored with release after thread and out; a panic of another thread may read it */
    jmp_buf out;
} server;

static void panic(void *ctx, const char *file, unsigned line, const char *reason)
{
    (void)ctx;
    if (dp_load_acquire(&server.serves) && pthread_equal(pthread_self(), server.thread))
        longjmp(server.out, 1);
    fprintf(stderr, "Fatal error in GNU libmicrohttpd %s:%u: %s\n", file, line, reason ? reason : "");
    abort();
}

int dp_http_survive(int (*serve)(void *arg), void *arg, bool library_is_ours)
{
    if (library_is_ours)
        MHD_set_panic_func(panic, NULL);
    server.thread = pthread_self();
    if (setjmp(server.out)) {
        dp_store_release(&server.serves, false);
        return -ENOTRECOVERABLE;
    }
    dp_store_release(&server.serves, true);
    int err = serve(arg);
    dp_store_release(&server.serves, false);
    return err;
}
