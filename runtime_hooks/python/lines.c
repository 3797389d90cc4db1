/* SPDX-License-Identifier: MIT */
/*
 * lines.c - decodes the line table of a code object, in the hook, without touching the interpreter.
 *
 * Sources of the formats: CPython's Objects/locations.md (3.11 and later) and Objects/lnotab_notes.txt (3.9, 3.10).
 * Each entry covers a run of instructions; the line of an offset is that of the entry that covers it. Decoding a table
 * takes about a nanosecond a byte, so lines are cached.
 */
#include "python.h"

enum { KNOWN_LINES = 8192 };

/* 3.9: pairs of (bytes of code up to the next line, signed line delta). */
static uint32_t line_by_steps(const uint8_t *at, size_t n_bytes, uint32_t first_line, size_t offset, size_t *n_read)
{
    const uint8_t *table = at;
    size_t start = 0;
    int64_t line = first_line;
    for (const uint8_t *stop = at + (n_bytes & ~(size_t)1); at < stop; at += 2) {
        start += at[0];
        if (start > offset) {
            *n_read = (size_t)(at + 2 - table);
            break;
        }
        line += (int8_t)at[1];
    }
    return line < 0 ? 0 : (uint32_t)line;
}

/* 3.10: pairs of (bytes of code, signed line delta); delta -128 says that there is no line. */
static uint32_t line_by_pairs(const uint8_t *at, size_t n_bytes, uint32_t first_line, size_t offset, size_t *n_read)
{
    const uint8_t *table = at;
    size_t end = 0;
    int64_t line = first_line;
    for (const uint8_t *stop = at + (n_bytes & ~(size_t)1); at < stop; at += 2) {
        int8_t delta = (int8_t)at[1];
        end += at[0];
        if (delta != -128)
            line += delta;
        if (offset < end) {
            *n_read = (size_t)(at + 2 - table);
            return delta == -128 || line < 0 ? 0 : (uint32_t)line;
        }
    }
    return 0;
}

/* 6 bits a byte, the least significant first; bit 6 says that more follow. */
static uint64_t varint(const uint8_t **at, const uint8_t *stop)
{
    uint64_t value = 0;
    for (unsigned shift = 0; *at < stop && shift < 60; shift += 6) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 63) << shift;
        if (!(byte & 64))
            break;
    }
    return value;
}

enum { ONE_LINE_0 = 10, ONE_LINE_2 = 12, NO_COLUMNS = 13, LONG = 14, NO_LINE = 15 };

/* 3.11: an entry begins with a byte whose top bit is set: 4 bits of its form, 3 of its length in instructions. */
static uint32_t line_by_entries(const uint8_t *at, size_t n_bytes, uint32_t first_line, size_t offset, size_t *n_read)
{
    const uint8_t *table = at, *stop = at + n_bytes;
    size_t end = 0;
    int64_t line = first_line;
    while (at < stop) {
        uint8_t first = *at++;
        unsigned form = first >> 3 & 15;
        if (form >= ONE_LINE_0 && form <= ONE_LINE_2) {
            line += form - ONE_LINE_0;
        } else if (form == NO_COLUMNS || form == LONG) {
            uint64_t delta = varint(&at, stop);
            line += delta & 1 ? -(int64_t)(delta >> 1) : (int64_t)(delta >> 1);
        }
        end += ((first & 7) + 1u) * 2;
        if (offset < end) {
            *n_read = (size_t)(at - table);
            return form == NO_LINE || line < 0 ? 0 : (uint32_t)line;
        }
        while (at < stop && !(*at & 0x80)) /* its columns */
            at++;
    }
    return 0;
}

/* ---- the lines that were decoded last --------------------------------------------------------------------------- */

/*
 * A line is a function of the first line, the offset and the bytes of the table up to the entry that covers the offset.
 * The check is a hash of all of these and of the line itself: an entry that two threads write at once fails it, and so
 * does the table of another code object.
 */
static struct known_line {
    uint64_t check;
    uint32_t n_bytes, line; /* n_bytes: of the table, up to the end of the entry */
} known[KNOWN_LINES] DP_LARGE;

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)(a ^ 0x9E3779B97F4A7C15u) * (b ^ 0xD6E8FEB86659FD93u);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

typedef uint64_t unaligned_word __attribute__((may_alias, aligned(1)));
static inline uint64_t word_at(const uint8_t *bytes)
{
    return *(const unaligned_word *)bytes;
}

static uint64_t check_of(const uint8_t *table, uint32_t n_bytes, uint32_t line, uint32_t first_line, size_t offset)
{
    uint64_t a = mix(first_line, offset), b = mix((uint64_t)n_bytes << 32 | line, first_line), rest = 0;
    const uint8_t *stop = table + n_bytes;
    for (; stop - table >= 32; table += 32) { /* two chains, so that one need not wait for the other */
        a = mix(a ^ word_at(table), word_at(table + 8));
        b = mix(b ^ word_at(table + 16), word_at(table + 24));
    }
    for (; stop - table >= 8; table += 8)
        a = mix(a, word_at(table));
    for (; table < stop; table++)
        rest = rest << 8 | *table;
    return mix(a ^ rest, b);
}

uint32_t dp_python_line_of(const uint8_t *table, size_t n_bytes, uint32_t first_line, size_t offset)
{
    /* functions of the same shape share a table, so the first line has to select the place too */
    struct known_line *known_line = &known[mix((uintptr_t)table, (uint64_t)first_line << 32 ^ offset) % KNOWN_LINES];
    uint32_t n = __atomic_load_n(&known_line->n_bytes, __ATOMIC_RELAXED);
    uint32_t line = __atomic_load_n(&known_line->line, __ATOMIC_RELAXED);
    uint64_t check = __atomic_load_n(&known_line->check, __ATOMIC_RELAXED);
    if (n && n <= n_bytes && check_of(table, n, line, first_line, offset) == check)
        return line;
    size_t end = n_bytes;
    uint32_t (*decode)(const uint8_t *, size_t, uint32_t, size_t, size_t *) = dp_python.minor >= 11   ? line_by_entries
                                                                              : dp_python.minor == 10 ? line_by_pairs
                                                                                                      : line_by_steps;
    line = decode(table, n_bytes, first_line, offset, &end);
    n = (uint32_t)end;
    __atomic_store_n(&known_line->check, check_of(table, n, line, first_line, offset), __ATOMIC_RELAXED);
    __atomic_store_n(&known_line->n_bytes, n, __ATOMIC_RELAXED);
    __atomic_store_n(&known_line->line, line, __ATOMIC_RELAXED);
    return line;
}
