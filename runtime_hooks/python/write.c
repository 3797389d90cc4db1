/* SPDX-License-Identifier: MIT */
/*
 * write.c - keeps the bytes of a profile for the module, so that no code of Python runs while the profile is written.
 * The memory is no event.
 */
#include "python.h"

#include <errno.h>
#include <stdlib.h>

struct profile {
    char *bytes;
    size_t n, size;
};

static void resize(struct profile *p, size_t size)
{
    int64_t kept = deltaprof_guard_enter();
    char *bytes = realloc(p->bytes, size);
    deltaprof_guard_exit(kept);
    if (bytes) {
        p->bytes = bytes;
        p->size = size;
    }
}

static int append(void *ctx, const void *bytes, size_t n_bytes)
{
    enum { LEAST = 1 << 16 };
    struct profile *p = ctx;
    if (p->size - p->n < n_bytes)
        resize(p, (p->size + n_bytes) * 2 + LEAST);
    if (p->size - p->n < n_bytes)
        return -ENOMEM;
    memcpy(p->bytes + p->n, bytes, n_bytes);
    p->n += n_bytes;
    return 0;
}

static void drop(void *bytes)
{
    int64_t kept = deltaprof_guard_enter();
    free(bytes);
    deltaprof_guard_exit(kept);
}

int deltaprof_python_write(struct deltaprof_delta *delta, void **bytes, size_t *n_bytes)
{
    if (!delta) {
        drop(*bytes);
        return 0;
    }
    struct profile p = {0};
    int err = deltaprof_delta_write_uncommitted(delta, append, &p);
    *bytes = p.bytes;
    *n_bytes = p.n;
    return err;
}
