/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "pprof/decode.h"
#include "pprof/decode_input.h"
#include "pprof/gzip.h"

extern const struct dp_gzip_ops dp_module_gzip; /* linked in here, so no module is opened */
static const struct dp_gzip_ops *const linked_in __attribute__((used)) = &dp_module_gzip;

static struct dp_decode_input input;
static struct dp_decode_error error;

/* A field 15 with no bytes: the shortest message that may be a profile. */
static const uint8_t message[] = {0x7a, 0x00};

/* One gzip member with a stored block. Returns its size. */
static size_t make_member(uint8_t *to, const void *bytes, size_t n)
{
    static const uint8_t header[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1};
    uint32_t crc = dp_hash_crc32(0, bytes, n), n_bytes = (uint32_t)n;
    uint16_t length = (uint16_t)n, complement = (uint16_t)~n;
    memcpy(to, header, 11);
    memcpy(to + 11, &length, 2);
    memcpy(to + 13, &complement, 2);
    memcpy(to + 15, bytes, n);
    memcpy(to + 15 + n, &crc, 4);
    memcpy(to + 19 + n, &n_bytes, 4);
    return 23 + n;
}

static int read_copy(const void *bytes, size_t n, size_t limit)
{
    error.line[0] = 0;
    return dp_decode_input_copy(&input, bytes, n, limit, &error);
}

static void assert_refused(const void *bytes, size_t n, const char *why)
{
    assert_int_equal(read_copy(bytes, n, 1000), -EBADMSG);
    if (!strstr(error.line, why))
        fail_msg("'%s', not '%s'", error.line, why);
}

TEST(a_file_that_is_only_its_magic_is_named)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *why;
    } files[] = {
        {"", 0, "empty"},
        {"\x1f", 1, "byte 1: truncated"},
        {"\x1f\x8b", 2, "byte 2: truncated"},
        {"\x28\xb5\x2f\xfd", 4, "zstd data"},
        {"\xfd"
         "7zXZ",
         5, "xz data"},
        {"BZh", 3, "bzip2 data"},
        {"PK\x03\x04", 4, "a zip archive"},
        {"\x7f"
         "ELF",
         4, "a program"},
        {"\x7f"
         "EL",
         3, "byte 0: no field"},
        {"text", 4, "but text"},
        {"\t\r\n~", 4, "but text"},
        {"\x0a\x03\x0a\x01\x00", 5, "OTLP"},
        {"\x0a\x03\x12\x01\x00", 5, "OTLP"},
        {"\x0a\x80\x01\x12\x00", 5, "OTLP"},
        {"\x0a\xff\x01\x12\x00", 5, "OTLP"},
        {"\x0a\x03\x1a\x01\x00", 5, "another protocol buffer"},
        {"\x00", 1, "byte 0: no field"},
        {"\x0f", 1, "byte 0: no field"},
        {"\x07", 1, "byte 0: no field"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_refused(files[i].bytes, files[i].n, files[i].why);
    assert_int_equal(read_copy(message, sizeof message, 1000), 0);
    assert_int_equal(read_copy("\x0a\x02\x08\x01", 4, 1000), 0); /* a sample type of one number */
    assert_int_equal(read_copy("\x22\x00", 2, 1000), 0);
    assert_int_equal(read_copy("abc", 3, 1000), 0); /* too short to be called text */
}

TEST(a_member_is_whole_to_its_last_byte)
{
    uint8_t bytes[64];
    size_t n = make_member(bytes, message, sizeof message);
    assert_int_equal(read_copy(bytes, n, 1000), 0);
    assert_int_equal(input.bytes.n, sizeof message);
    assert_memory_equal(input.bytes.at, message, sizeof message);
    for (size_t cut = 1; cut < n; cut++)
        assert_refused(bytes, cut, "truncated");
    for (size_t i = n - 8; i < n; i++) { /* its checksum and its size */
        bytes[i] ^= 1;
        assert_int_equal(read_copy(bytes, n, 1000), -EBADMSG);
        bytes[i] ^= 1;
    }
}

TEST(members_follow_each_other_and_nothing_else_does)
{
    uint8_t bytes[128];
    size_t n = make_member(bytes, message, sizeof message), n_first = n;
    n += make_member(bytes + n, message, sizeof message);
    assert_int_equal(read_copy(bytes, n, 1000), 0);
    assert_int_equal(input.bytes.n, 2 * sizeof message);
    bytes[n_first] = 0;
    assert_refused(bytes, n, "byte 25: not gzip, behind the end");
    assert_refused(bytes, n_first + 1, "byte 25: not gzip, behind the end");
    uint8_t twice[128];
    bytes[n_first] = 0x1f;
    assert_refused(twice, make_member(twice, bytes, n_first), "gzipped twice");
    assert_int_equal(dp_decode_input_inflate(&input, twice, make_member(twice, bytes, n_first), 1000, &error), 0);
    assert_int_equal(input.bytes.n, n_first);
}

TEST(a_limit_is_a_size_that_is_still_read)
{
    uint8_t bytes[64];
    size_t n = make_member(bytes, message, sizeof message);
    for (size_t limit = 1; limit <= 3; limit++) {
        int expected = limit < sizeof message ? -EBADMSG : 0;
        assert_int_equal(read_copy(message, sizeof message, limit), expected);
        assert_int_equal(read_copy(bytes, n, limit), expected);
    }
    assert_int_equal(read_copy(bytes, n, 1), -EBADMSG);
    assert_non_null(strstr(error.line, "more than 1 bytes uncompressed, the limit"));
}

static int end(void **state)
{
    dp_decode_input_fini(&input);
    return 0;
}

UNIT(NULL, end)
