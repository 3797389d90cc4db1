/* SPDX-License-Identifier: MIT */
/* pprof/encode_utf8.c - checks UTF-8 by the table of RFC 3629, with a fast path for ASCII. */
#include "pprof/encode_utf8.h"

#include <stdint.h>
#include <string.h>

/* Length of the valid non-ASCII character at `at`; 0: there is none. */
static size_t character(const unsigned char *at, size_t n)
{
    unsigned lead = at[0], low = 0x80, high = 0xBF;
    size_t size = lead >= 0xC2 && lead <= 0xDF ? 2 : (lead & 0xF0) == 0xE0 ? 3 : lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
    if (!size || n < size)
        return 0;
    if (lead == 0xE0)
        low = 0xA0; /* overlong */
    else if (lead == 0xED)
        high = 0x9F; /* surrogates */
    else if (lead == 0xF0)
        low = 0x90; /* overlong */
    else if (lead == 0xF4)
        high = 0x8F; /* beyond U+10FFFF */
    if (at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < size; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    return size;
}

size_t dp_encode_utf8_prefix(const char *bytes, size_t n_bytes)
{
    const unsigned char *at = (const unsigned char *)bytes;
    size_t i = 0;
    while (i < n_bytes) {
        uint64_t word;
        if (n_bytes - i >= 8 && (memcpy(&word, at + i, 8), !(word & 0x8080808080808080u))) {
            i += 8;
            continue;
        }
        size_t size = at[i] < 0x80 ? 1 : character(at + i, n_bytes - i);
        if (!size)
            break;
        i += size;
    }
    return i;
}

size_t dp_encode_utf8_replace(char *to, const char *bytes, size_t n_bytes)
{
    char *start = to;
    while (n_bytes) {
        size_t valid = dp_encode_utf8_prefix(bytes, n_bytes);
        memcpy(to, bytes, valid);
        to += valid;
        bytes += valid;
        n_bytes -= valid;
        if (n_bytes) {
            memcpy(to, "\xEF\xBF\xBD", 3);
            to += 3;
            bytes++;
            n_bytes--;
        }
    }
    return (size_t)(to - start);
}
