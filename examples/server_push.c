/* SPDX-License-Identifier: MIT */
/*
 * server_push.c - a server that sends its own profiles through its HTTP client, libcurl.
 *
 * A program that has no HTTP client, or should not open connections, writes files, and `deltaprof push` sends them.
 * Writing in two phases keeps the sums right. If the receiver certainly did not accept a profile, the profile is
 * abandoned, and the next one covers its time as well. If the receiver accepted it, or may have, it is committed.
 *
 *     cc server_push.c $(pkg-config --cflags --libs deltaprof-preload libcurl)
 *     ./a.out http://localhost:4318/v1/pprof         # a collector's pprof receiver
 */
#include <deltaprof/deltaprof.h>

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct body {
    char *bytes;
    size_t n_bytes;
};

static int collect(void *ctx, const void *bytes, size_t n_bytes)
{
    struct body *body = ctx;
    char *more = realloc(body->bytes, body->n_bytes + n_bytes);
    if (!more)
        return -ENOMEM;
    body->bytes = more;
    memcpy(more + body->n_bytes, bytes, n_bytes);
    body->n_bytes += n_bytes;
    return 0;
}

static size_t drop(char *bytes, size_t size, size_t n, void *ctx)
{
    (void)bytes, (void)ctx;
    return size * n;
}

/* Returns true if the receiver accepted the body, or may have. */
static int send_body(const char *url, const struct body *body)
{
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/octet-stream");
    long status = 0;
    curl_off_t n_sent = 0;
    if (!curl || !headers)
        return 0;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body->bytes);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->n_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 10L);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(curl, CURLINFO_SIZE_UPLOAD_T, &n_sent);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    fprintf(stderr, "%s: status %ld, %s\n", url, status, curl_easy_strerror(code));
    return status ? status / 100 == 2 : n_sent >= (curl_off_t)body->n_bytes;
}

/* Sends the changes since the last committed profile. */
static int push(struct deltaprof_delta *delta, const char *url)
{
    struct body body = {0};
    int err = deltaprof_delta_write_uncommitted(delta, collect, &body);
    int taken = !err && send_body(url, &body);
    err = taken ? deltaprof_delta_commit(delta) : deltaprof_delta_abandon(delta);
    free(body.bytes);
    return err ? err : taken ? 0 : -EAGAIN;
}

static void *volatile last;

__attribute__((noinline)) static void handle_request(void)
{
    last = malloc(1000);
    free(last);
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "http://localhost:4318/v1/pprof";
    curl_global_init(CURL_GLOBAL_DEFAULT);
    /* Every allocation, for the example; leave heap_rate out in a server. */
    int err = deltaprof_start("heap_rate=1");
    struct deltaprof_delta *delta = err ? NULL : deltaprof_delta_new(DELTAPROF_HEAP);
    if (!delta) {
        fprintf(stderr, "cannot start the profiler: %s\n", strerror(err ? -err : errno));
        return 1;
    }
    for (int round = 0; round < 3; round++) { /* in a server: a thread, every 15 seconds */
        for (int i = 0; i < 500; i++)
            handle_request();
        err = push(delta, url);
        if (err)
            fprintf(stderr, "round %d: %s\n", round, strerror(-err));
    }
    deltaprof_delta_free(delta);
    return err ? 1 : 0;
}
