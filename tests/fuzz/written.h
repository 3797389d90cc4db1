/* SPDX-License-Identifier: MIT */
/* tests/fuzz/written.h - collects the output of a writer, to read it again. */
#pragma once

#include "base/mem.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(truth) ((truth) ? (void)0 : abort())

struct written {
    DP_VEC(uint8_t) bytes;
};

static inline int keep(void *ctx, const void *bytes, size_t n_bytes)
{
    struct written *written = ctx;
    if (!dp_vec_room(&written->bytes, n_bytes))
        return -ENOMEM;
    memcpy(written->bytes.at + written->bytes.n, bytes, n_bytes);
    written->bytes.n += n_bytes;
    return 0;
}
