/* SPDX-License-Identifier: MIT */
/*
 * lines.c - decodes the line table of a code object, in the hook, without touching the interpreter.
 *
 * Sources of the formats: CPython's Objects/locations.md (3.11 and later) and Objects/lnotab_notes.txt (3.10). Each
 * entry covers a run of instructions; the line of an offset is that of the entry that covers it.
 */
#include "python.h"

/* 3.10: pairs of (bytes of code, signed line delta); delta -128 says that there is no line. */
static uint32_t line_by_pairs(const uint8_t *at, size_t n_bytes, uint32_t first_line, size_t offset)
{
    size_t end = 0;
    int64_t line = first_line;
    for (const uint8_t *stop = at + (n_bytes & ~(size_t)1); at < stop; at += 2) {
        int8_t delta = (int8_t)at[1];
        end += at[0];
        if (delta != -128)
            line += delta;
        if (offset < end)
            return delta == -128 || line < 0 ? 0 : (uint32_t)line;
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
static uint32_t line_by_entries(const uint8_t *at, size_t n_bytes, uint32_t first_line, size_t offset)
{
    const uint8_t *stop = at + n_bytes;
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
        if (offset < end)
            return form == NO_LINE || line < 0 ? 0 : (uint32_t)line;
        while (at < stop && !(*at & 0x80)) /* its columns */
            at++;
    }
    return 0;
}

uint32_t dp_python_line_of(const uint8_t *table, size_t n_bytes, uint32_t first_line, size_t offset)
{
    return (dp_python.minor >= 11 ? line_by_entries : line_by_pairs)(table, n_bytes, first_line, offset);
}
