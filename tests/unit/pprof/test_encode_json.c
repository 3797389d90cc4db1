/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <errno.h>
#include <string.h>

#include "pprof/encode_json.h"

struct to {
    char text[256];
    size_t n, n_left; /* bytes until the writer fails */
};

static int write_to(void *ctx, const void *bytes, size_t n_bytes)
{
    struct to *to = ctx;
    if (n_bytes > to->n_left)
        return -ENOSPC;
    memcpy(to->text + to->n, bytes, n_bytes);
    to->n += n_bytes;
    to->n_left -= n_bytes;
    return 0;
}

TEST(strings_are_escaped_as_the_rfc_asks)
{
    static const char *const cases[][2] = {
        {"", "\"\""},
        {"plain", "\"plain\""},
        {"a\"b\\", "\"a\\\"b\\\\\""},
        {"\n\x1b[31m\x7f", "\"\\u000a\\u001b[31m\\u007f\""},
        {"gr\xc3\xb6\xc3\x9f"
         "e",
         "\"gr\xc3\xb6\xc3\x9f"
         "e\""},
        {"bad\xff\x80me", "\"bad\\ufffd\\ufffdme\""},
        {"\xc3", "\"\\ufffd\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct to to = {.n_left = sizeof to.text - 1};
        assert_int_equal(dp_encode_json_string(cases[i][0], write_to, &to), 0);
        assert_string_equal(to.text, cases[i][1]);
    }
}

TEST(an_error_of_the_writer_is_returned_from_every_place)
{
    struct to whole = {.n_left = sizeof whole.text};
    assert_int_equal(dp_encode_json_string("a\"b\xff"
                                           "c",
                                           write_to, &whole),
                     0);
    for (size_t n = 0; n < whole.n; n++) {
        struct to to = {.n_left = n};
        assert_int_equal(dp_encode_json_string("a\"b\xff"
                                               "c",
                                               write_to, &to),
                         -ENOSPC);
        assert_memory_equal(to.text, whole.text, to.n);
    }
}

UNIT(NULL, NULL)
