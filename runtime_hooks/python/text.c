/* SPDX-License-Identifier: MIT */
/*
 * text.c - reads the characters of a Python string in place, as UTF-8.
 *
 * An ASCII string is already UTF-8. Any other string has 1, 2 or 4 bytes for each character, behind its header. These
 * characters are encoded into the caller's buffer. A surrogate stands for a byte that Python could not decode, and
 * becomes U+FFFD. At most the last CHARACTERS_MAX characters are encoded: the end of a long path says more than its
 * beginning.
 */
#include "python.h"

enum { STR_LENGTH = 16, STR_STATE = 32, CHARACTERS_MAX = DP_PYTHON_TEXT / 4 };

static size_t encode_utf8(char *out, uint32_t c)
{
    if (c >= 0xd800 && c < 0xe000)
        c = 0xfffd;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 63));
        out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | (c >> 18 & 7));
    out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63));
    out[3] = (char)(0x80 | (c & 63));
    return 4;
}

bool dp_python_text(const char *str, char buf[DP_PYTHON_TEXT], const char **text, uint32_t *n_bytes)
{
    if (!dp_python_is(str, dp_python.str_type))
        return false;
    int64_t length = dp_python_long(str, dp_python_field(STR_LENGTH));
    uint32_t state = (uint32_t)dp_python_int(str, dp_python_field(STR_STATE)), kind = state >> 2 & 7;
    bool compact = state >> 5 & 1, ascii = state >> 6 & 1;
    if (length < 0 || length > INT32_MAX || !compact || (kind != 1 && kind != 2 && kind != 4))
        return false;
    if (ascii) {
        *text = str + dp_python.at.str_ascii;
        *n_bytes = (uint32_t)length;
        return true;
    }
    const char *at = str + dp_python.at.str_compact;
    size_t n = 0;
    for (int64_t i = length > CHARACTERS_MAX ? length - CHARACTERS_MAX : 0; i < length; i++) {
        const uint8_t *bytes = (const uint8_t *)at + (size_t)i * kind; /* both machines are little-endian */
        uint32_t c = bytes[0] | (kind > 1 ? (uint32_t)bytes[1] << 8 : 0);
        if (kind == 4)
            c |= (uint32_t)bytes[2] << 16;
        n += encode_utf8(buf + n, c);
    }
    *text = buf;
    *n_bytes = (uint32_t)n;
    return true;
}
