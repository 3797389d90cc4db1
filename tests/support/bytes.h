/* SPDX-License-Identifier: MIT */
/* tests/support/bytes.h - collects the bytes that a writer writes. */
#pragma once

#include "base/mem.h"

#include <string.h>

/* Zero is empty. */
struct bytes {
    DP_VEC(uint8_t) all;
};

/* A dp_pprof_write_fn; ctx is a struct bytes. */
static inline int keep(void *ctx, const void *bytes, size_t n_bytes)
{
    struct bytes *to = ctx;
    if (!dp_vec_room(&to->all, n_bytes))
        return -1;
    memcpy(to->all.at + to->all.n, bytes, n_bytes);
    to->all.n += n_bytes;
    return 0;
}
