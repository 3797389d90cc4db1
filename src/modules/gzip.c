/* SPDX-License-Identifier: MIT */
/*
 * modules/gzip.c - the gzip module: implements the table of pprof/gzip.h by ISA-L's igzip. The library does not call
 * malloc: its state and level buffer lie in the caller's memory.
 *
 * Level 2 gives profiles the size of zlib's level 1, at about four times its speed. A small stream, such as the profile
 * of a short-lived worker, gets level 1, whose tables are an eighth as large: most of the cost of a small profile is
 * the kernel's, for the pages that it touches. A stream of less than DP_GZIP_TINY_BYTES, such as a delta without
 * samples, gets the fixed Huffman codes of RFC 1951: to compute codes would take most of its time.
 *
 * To compute codes takes a third of the time of a small stream, and successive profiles of a process need nearly the
 * same ones. So from its second small stream on, a state reuses computed codes, through level 0. It computes them again
 * for every LEARNED_USES-th small stream, and for one that is LEARNED_GROWTH times as large as the one that they were
 * computed from. All symbols have a code, so any stream can be written with them; on profiles the size is that of
 * level 1, within 1 %, and 1 to 2 % above that of level 2.
 *
 * ISA-L returns with the upper halves of vector registers in use. Until they are cleared, the processor is slow at each
 * instruction on the lower halves that was not encoded for AVX, as those of this library and of the host.
 */
#include "base/atomic.h"
#include "base/cpu.h"
#include "pprof/gzip.h"

#include <errno.h>
#include <isa-l/igzip_lib.h>
#include <stdbool.h>
#include <string.h>

#define LEVEL       2
#define SMALL_LEVEL 1
#define SMALL_BYTES 24576  /* a stream whose first piece is below this is small */
#define WHOLE_BYTES 262144 /* a stream that comes in one piece is small below this */

enum { LEARNED_USES = 64, LEARNED_GROWTH = 4 };

struct deflate_state {
    struct isal_zstream stream;
    struct isal_hufftables learned; /* codes of an earlier small stream */
    uint32_t n_learned;             /* the bytes of that stream; 0: there are no codes yet */
    uint32_t n_small;               /* small streams since the codes were computed */
    uint8_t level_buffer[ISAL_DEF_LVL2_DEFAULT] __attribute__((aligned(64)));
};

_Static_assert(sizeof(struct isal_huff_histogram) <= ISAL_DEF_LVL2_DEFAULT, "the histogram lies in the level buffer");

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx"))) static void clear_uppers(void)
{
    _mm256_zeroupper();
}

static void leave_avx(void)
{
    static _Atomic int has_avx; /* 0: not known; 1: no; 2: yes. Relaxed: each thread finds the same */
    int known = dp_load_relaxed(&has_avx);
    if (!known)
        dp_store_relaxed(&has_avx, known = dp_cpu_has_avx() ? 2 : 1);
    if (known == 2)
        clear_uppers();
}
#else
static void leave_avx(void) {}
#endif

static void deflate_init(void *memory)
{
    struct deflate_state *state = memory;
    isal_deflate_init(&state->stream);
    state->stream.level = LEVEL;
    state->stream.level_buf = state->level_buffer;
    state->stream.level_buf_size = sizeof state->level_buffer;
    state->stream.gzip_flag = IGZIP_GZIP;
}

static uint32_t at_most_4g(size_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* Computes codes from the first piece of a stream, before it is compressed: the level buffer is free until then. */
static void compute_codes(struct deflate_state *state, const uint8_t *bytes, uint32_t n_bytes)
{
    struct isal_huff_histogram *histogram = (struct isal_huff_histogram *)state->level_buffer;
    memset(histogram, 0, sizeof *histogram);
    isal_update_histogram((uint8_t *)bytes, (int)n_bytes, histogram);
    if (isal_create_hufftables(&state->learned, histogram))
        return;
    state->n_learned = n_bytes;
    state->n_small = 0;
}

/* Chooses level and codes of a small stream. */
static void begin_small(struct deflate_state *state, const uint8_t *bytes, uint32_t n_bytes)
{
    bool is_first = state->n_small++ == 0 && !state->n_learned;
    state->stream.level = SMALL_LEVEL;
    if (is_first)
        return;
    if (state->n_small >= LEARNED_USES || n_bytes / LEARNED_GROWTH >= state->n_learned)
        compute_codes(state, bytes, n_bytes);
    if (!state->n_learned)
        return;
    state->stream.level = 0;
    isal_deflate_set_hufftables(&state->stream, &state->learned, IGZIP_HUFFTABLE_CUSTOM);
}

static int deflate(void *memory, struct dp_gzip_io *io, int finish)
{
    struct deflate_state *state = memory;
    struct isal_zstream *stream = &state->stream;
    uint32_t n_in = at_most_4g(io->n_in), n_out = at_most_4g(io->n_out);
    if (stream->total_in == 0 && finish && n_in && n_in < DP_GZIP_TINY_BYTES) {
        stream->level = 0;
        isal_deflate_set_hufftables(stream, NULL, IGZIP_HUFFTABLE_STATIC);
    } else if (stream->total_in == 0 && n_in && n_in < (finish ? WHOLE_BYTES : SMALL_BYTES)) {
        begin_small(state, io->in, n_in);
    }
    stream->next_in = (uint8_t *)io->in;
    stream->avail_in = n_in;
    stream->next_out = io->out;
    stream->avail_out = n_out;
    stream->end_of_stream = finish && n_in == io->n_in;
    int result = isal_deflate(stream);
    leave_avx();
    if (result != COMP_OK)
        return -EIO;
    io->in += n_in - stream->avail_in;
    io->n_in -= n_in - stream->avail_in;
    io->out += n_out - stream->avail_out;
    io->n_out -= n_out - stream->avail_out;
    return stream->internal_state.state == ZSTATE_END;
}

static void inflate_init(void *memory)
{
    struct inflate_state *state = memory;
    isal_inflate_init(state);
    state->crc_flag = ISAL_GZIP;
}

static int inflate(void *memory, struct dp_gzip_io *io, const char **why)
{
    struct inflate_state *state = memory;
    uint32_t n_in = at_most_4g(io->n_in), n_out = at_most_4g(io->n_out);
    state->next_in = (uint8_t *)io->in;
    state->avail_in = n_in;
    state->next_out = io->out;
    state->avail_out = n_out;
    int result = isal_inflate(state);
    leave_avx();
    io->in += n_in - state->avail_in;
    io->n_in -= n_in - state->avail_in;
    io->out += n_out - state->avail_out;
    io->n_out -= n_out - state->avail_out;
    if (result < 0 || result == ISAL_NEED_DICT) {
        *why = result == ISAL_INVALID_WRAPPER || result == ISAL_UNSUPPORTED_METHOD ? "not a gzip header"
               : result == ISAL_INCORRECT_CHECKSUM                                 ? "gzip checksum does not match"
                                                                                   : "corrupt deflate data";
        return -EBADMSG;
    }
    return state->block_state == ISAL_BLOCK_FINISH;
}

__attribute__((visibility("default"))) const struct dp_gzip_ops dp_module_gzip = {
    .base = {.abi = DP_MODULE_ABI, .file = "libisal", .probe = (const void *)isal_deflate},
    .deflate_bytes = sizeof(struct deflate_state),
    .inflate_bytes = sizeof(struct inflate_state),
    .deflate_init = deflate_init,
    .deflate = deflate,
    .inflate_init = inflate_init,
    .inflate = inflate,
};
