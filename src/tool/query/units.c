/* SPDX-License-Identifier: MIT */
/* tool/query/units.c - formats values and names for terminals, with the same units as `go tool pprof`. */
#include "tool/query/units.h"

#include "pprof/encode_utf8.h"

#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

struct step {
    const char *name;
    double size;
};

static const struct step bytes[] = {{"B", 1},       {"kB", 0x1p10}, {"MB", 0x1p20}, {"GB", 0x1p30},
                                    {"TB", 0x1p40}, {"PB", 0x1p50}, {NULL, 0}};
static const struct step times[] = {{"ns", 1},      {"us", 1e3},     {"ms", 1e6},       {"s", 1e9},
                                    {"mins", 60e9}, {"hrs", 3600e9}, {"days", 86400e9}, {NULL, 0}};
static const struct {
    const char *unit, *shorter;
    const struct step *steps;
    double factor;
} units[] = {
    {"byte", "b", bytes, 1},           {"kilobyte", "kb", bytes, 0x1p10}, {"megabyte", "mb", bytes, 0x1p20},
    {"gigabyte", "gb", bytes, 0x1p30}, {"nanosecond", "ns", times, 1},    {"microsecond", "us", times, 1e3},
    {"millisecond", "ms", times, 1e6}, {"second", "s", times, 1e9},       {"minute", "min", times, 60e9},
    {"hour", "hr", times, 3600e9},
};

/* Whether the text names the unit: upper or lower case, also with a plural's s, or its short form. */
static bool is_unit(size_t i, const char *unit)
{
    size_t n = strlen(units[i].unit);
    bool is_long = !strncasecmp(unit, units[i].unit, n) && (!unit[n] || !strcasecmp(unit + n, "s"));
    return is_long || !strcasecmp(unit, units[i].shorter);
}

void dp_query_print_unit(char *to, size_t n_bytes, int64_t value, const char *unit)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (!value || !is_unit(i, unit))
            continue;
        double scaled = (double)value * units[i].factor;
        const struct step *step = units[i].steps;
        while (step[1].name && fabs(scaled) >= step[1].size)
            step++;
        int n = snprintf(to, n_bytes, "%.2f", scaled / step->size);
        if (n > 3 && !strcmp(to + n - 3, ".00"))
            n -= 3;
        snprintf(to + n, n_bytes - (size_t)n, "%s", step->name);
        return;
    }
    snprintf(to, n_bytes, "%lld", (long long)value);
}

/* C1 controls; and characters that change the order of what stands around them, or end a line: a name with them could
 * show as another. U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069. */
static bool is_control(const char *at, size_t size)
{
    unsigned char lead = (unsigned char)at[0], second = (unsigned char)at[1];
    unsigned char third = size == 3 ? (unsigned char)at[2] : 0;
    if (size == 2)
        return (lead == 0xC2 && second < 0xA0) || (lead == 0xD8 && second == 0x9C);
    if (lead != 0xE2)
        return false;
    return (second == 0x80 && (third == 0x8E || third == 0x8F || (third >= 0xA8 && third <= 0xAE))) ||
           (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

/* Bytes of the character at `at`; 0: it is not shown. Text ends in a NUL, which is no part of a character. */
static size_t character(const char *at)
{
    unsigned char lead = (unsigned char)*at;
    if (lead < 0x80)
        return lead >= 0x20 && lead != 0x7f;
    size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    return dp_encode_utf8_prefix(at, strnlen(at, size)) == size && !is_control(at, size) ? size : 0;
}

void dp_query_print_clean(char *text)
{
    while (*text) {
        size_t size = character(text);
        if (!size)
            *text = '?';
        text += size ? size : 1;
    }
}

/* Columns that the character of so many bytes takes: two for most of East Asia's, none for an accent of its own. */
static size_t width(const char *at, size_t size)
{
    wchar_t wide;
    mbstate_t state = {0};
    int n = size > 1 && mbrtowc(&wide, at, size, &state) == size ? wcwidth(wide) : 1;
    return n < 0 ? 1 : (size_t)n;
}

void dp_query_print_name(FILE *to, const char *name, size_t n_columns)
{
    size_t n = 0, size;
    for (const char *at = name; *at; at += size ?: 1) {
        size = character(at);
        n += width(at, size);
    }
    int is_cut = n_columns > 2 && n > n_columns, is_said = 0;
    size_t n_head = is_cut ? (n_columns - 1) / 2 : n, n_tail = is_cut ? n_columns - 2 - n_head : 0;
    for (size_t from = 0, to_column; *name; name += size ?: 1, from = to_column) {
        size = character(name);
        to_column = from + width(name, size);
        bool is_skipped = to_column > n_head && from < n - n_tail;
        if (!is_skipped)
            fwrite(size ? name : "?", 1, size ?: 1, to);
        else if (!is_said++)
            fputs("..", to);
    }
}

size_t dp_query_print_room(size_t n_columns, size_t n_used)
{
    enum { LEAST = 8 };
    return !n_columns ? 0 : n_columns > n_used + LEAST ? n_columns - n_used : LEAST;
}

size_t dp_query_print_columns(void)
{
    struct winsize size;
    setlocale(LC_CTYPE, "C.UTF-8"); /* names are UTF-8 in any locale; if this fails, each character is one column */
    return isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) ? size.ws_col : 0;
}

/* A path that stands in the place of a word of the user's. */
static struct {
    const char *path, *word;
} replaced;

void dp_query_print_replaced(const char *path, const char *word)
{
    replaced.path = path;
    replaced.word = word;
}

const char *dp_query_print_word_of(const char *argument)
{
    return replaced.path && !strcmp(argument, replaced.path) ? replaced.word : argument;
}

static void print_word(const char *argument)
{
    argument = dp_query_print_word_of(argument);
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
    bool is_plain = *argument && !argument[strspn(argument, plain)];
    if (!is_plain)
        putchar('\'');
    while (*argument) {
        size_t size = character(argument);
        if (*argument == '\'')
            fputs("'\\''", stdout);
        else if (size)
            fwrite(argument, 1, size, stdout);
        else
            putchar('?');
        argument += size ?: 1;
    }
    fputs(is_plain ? "" : "'", stdout);
}

void dp_query_print_argument(const char *argument)
{
    print_word(argument);
    putchar('\n');
}

void dp_query_print_arguments(char *const *arguments, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fputs(i ? " " : "", stdout);
        print_word(arguments[i]);
    }
    putchar('\n');
}
