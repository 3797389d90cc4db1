/* SPDX-License-Identifier: MIT */
/* dp_binary_search against memmem: texts at each place around the ends of blocks, and near misses of their rare bytes.
 */
#include "support/unit.h"
#include <stdlib.h>
#include <string.h>

#include "binary/search.h"

enum { BYTES_MOST = 300 };

TEST(a_text_is_found_where_memmem_finds_it)
{
    static const char text[] = "<text>: ";
    const size_t n_text = sizeof text - 1;
    for (size_t n = 0; n <= BYTES_MOST; n++) {
        char *bytes = malloc(n + 1); /* of this size, so that valgrind and sanitizers see a byte too many */
        for (size_t at = 0; at <= n; at++) {
            for (size_t i = 0; i < n; i++)
                bytes[i] = text[i * 7 % 3]; /* '<', 't', 'e' in all orders */
            if (at + n_text <= n)
                memcpy(bytes + at, text, n_text);
            for (size_t rare = 0; rare + 1 < n_text; rare++)
                assert_ptr_equal(dp_binary_search(bytes, n, text, n_text, rare), memmem(bytes, n, text, n_text));
        }
        free(bytes);
    }
}

TEST(random_bytes_are_searched_as_by_memmem)
{
    uint8_t bytes[BYTES_MOST];
    srand(1);
    for (int round = 0; round < 20000; round++) {
        size_t n = (size_t)rand() % BYTES_MOST, n_text = 2 + (size_t)rand() % 4;
        uint8_t text[8];
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)(rand() >> 8 & 3);
        for (size_t i = 0; i < n_text; i++)
            text[i] = (uint8_t)(rand() >> 8 & 3);
        size_t rare = (size_t)rand() % (n_text - 1);
        assert_ptr_equal(dp_binary_search(bytes, n, text, n_text, rare), memmem(bytes, n, text, n_text));
    }
}

UNIT(NULL, NULL)
