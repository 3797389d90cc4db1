/* SPDX-License-Identifier: MIT */
/* modules/http_upload.c - keeps the bodies of requests: each in one growing mapping. */
#include "endpoint/server.h"

#include "modules/http_upload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 16384
#define ONE_BYTES   (1u << 20) /* limit for the body of one request */
#define ALL_BYTES   (4u << 20) /* limit for the bodies of all current requests */

int dp_http_upload_announce(struct dp_http_uploads *all, struct dp_http_upload *upload, const char *length,
                            bool chunked, const char **message)
{
    unsigned long long n = chunked ? ONE_BYTES : length ? strtoull(length, NULL, 10) : 0;
    if (n > ONE_BYTES) {
        *message = "more than 1 MiB of addresses";
        return 413;
    }
    if (all->announced + n > ALL_BYTES) {
        *message = "too many requests with a body are under way";
        return 503;
    }
    upload->announced = (size_t)n;
    all->announced += upload->announced;
    return 200;
}

int dp_http_upload_add(struct dp_http_uploads *all, struct dp_http_upload *upload, const char *bytes, size_t n_bytes)
{
    if (upload->n + n_bytes > ONE_BYTES)
        upload->too_long = true;
    if (upload->too_long)
        return 0;
    if (upload->n + n_bytes > upload->cap) {
        size_t cap = upload->cap ? upload->cap : FIRST_BYTES;
        while (cap < upload->n + n_bytes)
            cap *= 2;
        char *grown = all->calls->remap(upload->bytes, upload->cap, cap);
        if (!grown)
            return -ENOMEM;
        upload->bytes = grown;
        upload->cap = cap;
    }
    memcpy(upload->bytes + upload->n, bytes, n_bytes);
    upload->n += n_bytes;
    return 0;
}

void dp_http_upload_drop(struct dp_http_uploads *all, struct dp_http_upload *upload)
{
    all->calls->unmap(upload->bytes, upload->cap);
    all->announced -= upload->announced;
    *upload = (struct dp_http_upload){.bytes = NULL};
}
