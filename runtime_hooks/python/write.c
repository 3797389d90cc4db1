/* SPDX-License-Identifier: MIT */
/*
 * write.c - keeps the bytes of a profile for the module, so that no code of Python runs while the profile is written.
 * The memory is no event.
 */
#include "python.h"

#include <errno.h>
#include <stdlib.h>

static struct {
    char *bytes;
    size_t n, size;
} profile;

static void resize(size_t size)
{
    int64_t kept = deltaprof_guard_enter();
    char *bytes = realloc(profile.bytes, size);
    deltaprof_guard_exit(kept);
    if (bytes) {
        profile.bytes = bytes;
        profile.size = size;
    }
}

static int keep(void *ctx, const void *bytes, size_t n_bytes)
{
    enum { LEAST = 1 << 16 };
    if (profile.size - profile.n < n_bytes)
        resize((profile.size + n_bytes) * 2 + LEAST);
    if (profile.size - profile.n < n_bytes)
        return -ENOMEM;
    memcpy(profile.bytes + profile.n, bytes, n_bytes);
    profile.n += n_bytes;
    return 0;
}

static void drop(void)
{
    int64_t kept = deltaprof_guard_enter();
    free(profile.bytes);
    deltaprof_guard_exit(kept);
    profile.bytes = NULL;
    profile.size = 0;
}

int deltaprof_python_write(struct deltaprof_delta *delta, const void **bytes, size_t *n_bytes)
{
    profile.n = 0;
    if (!delta) {
        drop();
        return 0;
    }
    int err = deltaprof_delta_write_uncommitted(delta, keep, NULL);
    *bytes = profile.bytes;
    *n_bytes = profile.n;
    return err;
}
