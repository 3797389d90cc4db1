/* SPDX-License-Identifier: MIT */
/*
 * pprof/decode_input.c - reads a profile piece by piece and inflates it directly into the result.
 *
 * The result is one block of memory, because a reader goes over the message twice: samples come before the locations
 * and strings that they refer to. The file is read, not mapped: if it were truncated meanwhile, a mapping would raise
 * SIGBUS.
 */
#include "pprof/decode_input.h"

#include "pprof/gzip.h"
#include "pprof/wire.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)256 << 10)
#define SLACK_BYTES ((size_t)1 << 20)
#define BEGINNING   64 /* bytes that are enough to recognize the format */

int dp_decode_fail(struct dp_decode_error *error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (error) {
        vsnprintf(error->line, sizeof error->line, format, args);
        /* strings of a profile may have any bytes; this is one line for a terminal */
        for (char *at = error->line; *at; at++)
            if ((unsigned char)*at < 0x20 || *at == 0x7f)
                *at = '?';
    }
    va_end(args);
    return -EBADMSG;
}

struct reader {
    struct dp_decode_input *input;
    size_t limit_bytes;
    struct dp_decode_error *error;
    enum { START, RAW, MEMBER, BETWEEN } state;
    bool is_begun; /* the format is known */
    uint64_t n_in; /* bytes in the pieces before this one */
    void *inflate; /* the module's state */
    const struct dp_gzip_ops *ops;
};

static int no_memory(struct reader *r)
{
    dp_decode_fail(r->error, "out of memory at %zu bytes", r->input->bytes.n);
    return -ENOMEM;
}

static int make_room(struct reader *r, size_t n_bytes)
{
    if (r->input->bytes.n > r->limit_bytes)
        return dp_decode_fail(r->error, "more than %zu bytes uncompressed, the limit", r->limit_bytes);
    return dp_vec_room(&r->input->bytes, n_bytes) ? 0 : no_memory(r);
}

static int take_raw(struct reader *r, const uint8_t *bytes, size_t n_bytes)
{
    int err = make_room(r, n_bytes);
    if (err)
        return err;
    memcpy(r->input->bytes.at + r->input->bytes.n, bytes, n_bytes);
    r->input->bytes.n += n_bytes;
    return make_room(r, 0);
}

static int begin_member(struct reader *r)
{
    const char *why = "";
    if (!r->ops)
        r->ops = dp_gzip_ops(&why);
    if (!r->ops)
        return dp_decode_fail(r->error, "cannot read gzip: %s", why);
    if (!r->inflate)
        r->inflate = dp_mem_map(r->ops->inflate_bytes);
    if (!r->inflate)
        return no_memory(r);
    r->ops->inflate_init(r->inflate);
    r->state = MEMBER;
    return 0;
}

static int take_gzip(struct reader *r, const uint8_t *bytes, size_t n_bytes)
{
    struct dp_gzip_io io = {.in = bytes, .n_in = n_bytes};
    size_t room = 1;
    while (io.n_in || room == 0) {
        int err = 0;
        if (r->state == BETWEEN) {
            if (*io.in != 0x1f)
                return dp_decode_fail(r->error, "byte %llu: not gzip, behind the end of gzip data",
                                      (unsigned long long)(r->n_in + (size_t)(io.in - bytes)));
            err = begin_member(r);
        }
        if (err || (err = make_room(r, SLACK_BYTES)))
            return err;
        const char *why = "";
        size_t n_before = r->input->bytes.n;
        room = r->input->bytes.cap - n_before;
        if (room > r->limit_bytes + 1 - n_before)
            room = r->limit_bytes + 1 - n_before;
        io.out = r->input->bytes.at + n_before;
        io.n_out = room;
        int done = r->ops->inflate(r->inflate, &io, &why);
        r->input->bytes.n = n_before + room - io.n_out;
        room = io.n_out;
        if (done < 0)
            return dp_decode_fail(r->error, "byte %llu: %s", (unsigned long long)(r->n_in + (size_t)(io.in - bytes)),
                                  why);
        if (done) {
            r->state = BETWEEN;
            room = 1;
        }
    }
    return make_room(r, 0);
}

/* Formats that users pass by mistake. None can be a profile: the first byte would be a field with a wrong type. */
static const struct {
    const char *magic, *what;
} others[] = {
    {"\x1f\x8b", "gzipped twice"},
    {"\x28\xb5\x2f\xfd", "zstd data"},
    {"\xfd"
     "7zXZ",
     "xz data"},
    {"BZh", "bzip2 data"},
    {"PK\x03\x04", "a zip archive"},
    {"\x7f"
     "ELF",
     "a program"},
};

static bool is_text(const uint8_t *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++)
        if ((bytes[i] < 0x20 || bytes[i] > 0x7e) && (bytes[i] < '\t' || bytes[i] > '\r'))
            return false;
    return n_bytes >= 4;
}

/* Whether a message can begin with this byte: a field number that is not 0, and a wire type. */
static bool is_tag(uint8_t byte)
{
    unsigned types = 1 << DP_WIRE_VARINT | 1 << DP_WIRE_FIXED64 | 1 << DP_WIRE_BYTES | 1 << DP_WIRE_FIXED32;
    return byte >> 3 && types >> (byte & 7) & 1;
}

/*
 * Another message of protocol buffers that begins with its field 1, as a trace of Perfetto and OTLP do; NULL: none. In
 * a profile field 1 is a sample type, of two numbers.
 */
static const char *other_message(const uint8_t *bytes, size_t n_bytes)
{
    enum { FIRST = 1 << 3 | DP_WIRE_BYTES, SECOND = 2 << 3 | DP_WIRE_BYTES };
    size_t at = 1;
    while (at < n_bytes && bytes[at] >= 128)
        at++;
    uint8_t inner = at + 1 < n_bytes && bytes[at] ? bytes[at + 1] : 0;
    if (bytes[0] != FIRST || !inner || (inner & 7) == DP_WIRE_VARINT)
        return NULL;
    return inner == FIRST || inner == SECOND ? "OTLP, which is written but not read" : "another protocol buffer";
}

int dp_decode_input_refuse_others(const uint8_t *bytes, size_t n_bytes, struct dp_decode_error *error)
{
    n_bytes = n_bytes < BEGINNING ? n_bytes : BEGINNING;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        size_t n_magic = strlen(others[i].magic);
        if (n_bytes >= n_magic && !memcmp(bytes, others[i].magic, n_magic))
            return dp_decode_fail(error, "not a pprof profile, gzipped or raw, but %s", others[i].what);
    }
    if (is_text(bytes, n_bytes))
        return dp_decode_fail(error, "not a pprof profile, gzipped or raw, but text; if it is folded stacks, deltaprof "
                                     "convert reads it");
    const char *message = other_message(bytes, n_bytes);
    if (message)
        return dp_decode_fail(error, "not a pprof profile, gzipped or raw, but %s", message);
    return is_tag(bytes[0]) ? 0 : dp_decode_fail(error, "byte 0: no field of a profile");
}

/* Called once, as soon as there are enough bytes: before a gigabyte of another format is read. */
static int refuse_others(struct reader *r, int at_end)
{
    size_t n_bytes = r->input->bytes.n;
    if (r->is_begun || !n_bytes || (n_bytes < BEGINNING && !at_end))
        return 0;
    r->is_begun = 1;
    return dp_decode_input_refuse_others(r->input->bytes.at, n_bytes, r->error);
}

static int feed(struct reader *r, const uint8_t *bytes, size_t n_bytes)
{
    int err = 0;
    if (r->state == START && n_bytes) {
        r->state = bytes[0] == 0x1f ? MEMBER : RAW; /* 0x1f is no tag of a profile: wire type 7 */
        if (r->state == MEMBER)
            err = begin_member(r);
    }
    if (!err)
        err = r->state == RAW ? take_raw(r, bytes, n_bytes) : take_gzip(r, bytes, n_bytes);
    r->n_in += n_bytes;
    return err ? err : refuse_others(r, 0);
}

static int finish(struct reader *r)
{
    if (r->state == MEMBER)
        return dp_decode_fail(r->error, "byte %llu: truncated, gzip data goes on", (unsigned long long)r->n_in);
    if (!r->input->bytes.n)
        return dp_decode_fail(r->error, "empty, not a pprof profile");
    return refuse_others(r, 1);
}

static void begin(struct reader *r, struct dp_decode_input *input, size_t limit_bytes, struct dp_decode_error *error)
{
    *r = (struct reader){.input = input, .limit_bytes = limit_bytes, .error = error};
    if (limit_bytes > DP_DECODE_LIMIT_MAX)
        r->limit_bytes = DP_DECODE_LIMIT_MAX;
    dp_vec_clear(&input->bytes);
}

static void end(struct reader *r)
{
    if (r->ops)
        dp_mem_unmap(r->inflate, r->ops->inflate_bytes);
}

int dp_decode_input_read(struct dp_decode_input *input, int fd, size_t limit_bytes, struct dp_decode_error *error)
{
    struct reader r;
    begin(&r, input, limit_bytes, error);
    uint8_t *piece = dp_mem_map(PIECE_BYTES);
    int err = piece ? 0 : no_memory(&r);
    while (!err) {
        ssize_t n = read(fd, piece, PIECE_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            err = -errno;
            dp_decode_fail(error, "%s", strerror(errno));
        } else if (n == 0) {
            err = finish(&r);
            break;
        } else {
            err = feed(&r, piece, (size_t)n);
        }
    }
    dp_mem_unmap(piece, PIECE_BYTES);
    end(&r);
    return err;
}

static int copy(struct reader *r, const void *bytes, size_t n_bytes)
{
    int err = n_bytes ? feed(r, bytes, n_bytes) : 0;
    if (!err)
        err = finish(r);
    end(r);
    return err;
}

int dp_decode_input_copy(struct dp_decode_input *input, const void *bytes, size_t n_bytes, size_t limit_bytes,
                         struct dp_decode_error *error)
{
    struct reader r;
    begin(&r, input, limit_bytes, error);
    return copy(&r, bytes, n_bytes);
}

int dp_decode_input_inflate(struct dp_decode_input *input, const void *bytes, size_t n_bytes, size_t limit_bytes,
                            struct dp_decode_error *error)
{
    struct reader r;
    begin(&r, input, limit_bytes, error);
    r.is_begun = 1; /* nothing is refused */
    return copy(&r, bytes, n_bytes);
}

void dp_decode_input_fini(struct dp_decode_input *input)
{
    dp_vec_fini(&input->bytes);
}
