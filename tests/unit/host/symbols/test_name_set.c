/* SPDX-License-Identifier: MIT */
#include "support/unit.h"
#include <stdio.h>
#include <string.h>

#include "host/symbols/name_set.h"

TEST(a_string_is_kept_once_at_one_address)
{
    static struct dp_symbols_names set;
    static const char *kept[3000];
    char text[64];
    for (int i = 0; i < 3000; i++) { /* several rounds of growth, and several chunks */
        int n = snprintf(text, sizeof text, "name-%d-%d", i, i * 7);
        kept[i] = dp_symbols_names_keep(&set, text, (size_t)n);
        assert_non_null(kept[i]);
        assert_string_equal(kept[i], text);
    }
    for (int i = 0; i < 3000; i++) {
        snprintf(text, sizeof text, "name-%d-%d", i, i * 7);
        assert_ptr_equal(dp_symbols_names_keep(&set, text, sizeof text), kept[i]); /* up to the NUL */
        assert_string_equal(kept[i], text);
        assert_int_equal(dp_symbols_name_of(kept[i])->n_bytes, strlen(text));
    }
    assert_int_equal(set.n, 3000);
    assert_ptr_not_equal(dp_symbols_names_keep(&set, "name-1-7", 7), kept[1]);
    assert_string_equal(dp_symbols_names_keep(&set, "name-1-7", 7), "name-1-");
    assert_string_equal(dp_symbols_names_keep(&set, "", 0), "");
}

/* Around the size of the first chunk, and of the others. */
TEST(a_string_may_be_as_long_as_a_chunk_and_longer)
{
    static char text[70 << 10];
    memset(text, 'n', sizeof text);
    static const size_t sizes[] = {8 << 10, 64 << 10};
    for (size_t i = 0; i < 2; i++)
        for (size_t n = sizes[i] - 50; n < sizes[i] + 10; n++) {
            struct dp_symbols_names set = {.n = 0};
            if (i)
                assert_non_null(dp_symbols_names_keep(&set, "first", 5));
            const char *kept = dp_symbols_names_keep(&set, text, n);
            assert_non_null(kept);
            assert_int_equal(strlen(kept), n);
            assert_true(kept >= set.chunk && kept + n + 1 <= set.chunk + set.size);
            const char *next = dp_symbols_names_keep(&set, "next", 4);
            assert_true(next >= set.chunk && next + 5 <= set.chunk + set.size);
            assert_string_equal(next, "next");
            assert_int_equal(strlen(kept), n);
        }
}

UNIT(NULL, NULL)
