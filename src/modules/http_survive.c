/* SPDX-License-Identifier: MIT */
/*
 * modules/http_survive.c - libmicrohttpd's panic function: it is called when the library finds its own state broken,
 * must not return, and by default ends the process. Our thread leaves the library by a long jump instead. The function
 * stands for the whole process, so a server of the host's gets what the library would have done.
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
    _Atomic bool serves; /* released with thread and out set; a panic of another thread may read it */
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
