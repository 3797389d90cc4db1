/* SPDX-License-Identifier: MIT */
/* base/text.c - implements the small parts of printf and strtoll that text.h describes. */
#include "base/text.h"

#include <errno.h>
#include <string.h>

struct unit {
    const char *name;
    int64_t factor;
};
/* Returns an errno's name, such as "ENOENT"; glibc has it since 2.32. */
extern const char *glibc_error_name(int error) __asm__("strerrorname_np") __attribute__((weak));

/* For older versions: the errors of files, sockets and memory. */
/* clang-format off */
#define NAMED(error) {error, #error}
/* clang-format on */
static const struct {
    int error;
    const char *name;
} errors[] = {NAMED(EPERM),   NAMED(ENOENT),     NAMED(EINTR),          NAMED(EIO),           NAMED(EBADF),
              NAMED(EAGAIN),  NAMED(ENOMEM),     NAMED(EACCES),         NAMED(EBUSY),         NAMED(EEXIST),
              NAMED(ENOTDIR), NAMED(EISDIR),     NAMED(EINVAL),         NAMED(ENFILE),        NAMED(EMFILE),
              NAMED(EFBIG),   NAMED(ENOSPC),     NAMED(EROFS),          NAMED(EPIPE),         NAMED(ENAMETOOLONG),
              NAMED(ELOOP),   NAMED(EDQUOT),     NAMED(EADDRINUSE),     NAMED(EADDRNOTAVAIL), NAMED(EAFNOSUPPORT),
              NAMED(ENOSYS),  NAMED(EOPNOTSUPP), NAMED(EPROTONOSUPPORT)};

/* Largest unit first: the first one that divides the number gives the shortest text. */
static const struct unit sizes[] = {{"T", INT64_C(1) << 40}, {"G", 1 << 30}, {"M", 1 << 20},
                                    {"k", 1 << 10},          {"", 1},        {0}};
static const struct unit times[] = {{"h", INT64_C(3600000000000)},
                                    {"m", INT64_C(60000000000)},
                                    {"s", 1000000000},
                                    {"ms", 1000000},
                                    {"us", 1000},
                                    {"ns", 1},
                                    {0}};

/* Reads digits into n; *end is the rest of the text. */
static int digits(const char *text, const char **end, int64_t *n)
{
    int64_t value = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *p - '0', &value))
            return -ERANGE;
    if (p == text)
        return -EINVAL;
    *end = p;
    *n = value;
    return 0;
}

static bool is_one_of(const char *text, size_t n_bytes, const char *allowed)
{
    for (size_t i = 0; i < n_bytes; i++)
        if (!text[i] || !strchr(allowed, text[i]))
            return false;
    return n_bytes > 0;
}

bool dp_text_is_authority(const char *text, size_t n_bytes)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    const char *last = n_bytes && *text == '[' ? memchr(text, ']', n_bytes) : NULL, *end;
    int64_t port;
    size_t n_host = last ? (size_t)(last + 1 - text) : 0;
    if (last && !is_one_of(text + 1, n_host - 2, "0123456789abcdefABCDEF:."))
        return false;
    while (!last && n_host < n_bytes && text[n_host] != ':')
        n_host++;
    if (!last && !is_one_of(text, n_host, name))
        return false;
    if (n_host == n_bytes)
        return true;
    return text[n_host] == ':' && is_one_of(text + n_host + 1, n_bytes - n_host - 1, "0123456789") &&
           !digits(text + n_host + 1, &end, &port) && port >= 1 && port <= 65535;
}

int dp_text_read_count(const char *text, int64_t *n)
{
    const char *end;
    int err = digits(text, &end, n);
    return err ? err : *end ? -EINVAL : 0;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* The n units of a number with the digits of a fraction behind it, ".5" at text; *end behind them. */
static int with_fraction(const char *text, const char **end, int64_t n, int64_t factor, int64_t *out)
{
    int64_t value, part = factor;
    if (__builtin_mul_overflow(n, factor, &value))
        return -ERANGE;
    if (*text == '.' && (text[1] < '0' || text[1] > '9'))
        return -EINVAL;
    for (text += *text == '.'; *text >= '0' && *text <= '9'; text++) {
        part /= 10; /* digits below one unit of the result are dropped */
        if (__builtin_add_overflow(value, part * (*text - '0'), &value))
            return -ERANGE;
    }
    *end = text;
    *out = value;
    return 0;
}

int dp_text_read_size(const char *text, int64_t *n_bytes)
{
    const char *end;
    int err = digits(text, &end, n_bytes);
    if (err)
        return err;
    for (const struct unit *u = sizes; u->name; u++)
        if (lower(end[0]) == lower(u->name[0]) && (!end[0] || !end[1]))
            return __builtin_mul_overflow(*n_bytes, u->factor, n_bytes) ? -ERANGE : 0;
    return -EINVAL;
}

int dp_text_read_time(const char *text, int64_t *ns)
{
    const char *end;
    int err = digits(text, &end, ns);
    if (err)
        return err;
    if (!*end)
        return *ns ? -EINVAL : 0;
    const char *fraction = end;
    size_t n_fraction = *end == '.' ? 1 + strspn(end + 1, "0123456789") : 0;
    for (const struct unit *u = times; u->name; u++)
        if (strcmp(fraction + n_fraction, u->name) == 0)
            return with_fraction(fraction, &end, *ns, u->factor, ns);
    return -EINVAL;
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

struct out {
    char *at;
    size_t n, room;
};

static void put_char(struct out *o, char c)
{
    if (o->n + 1 < o->room)
        o->at[o->n++] = c;
}

static void put_text(struct out *o, const char *text)
{
    for (const char *p = text ? text : "(null)"; *p; p++)
        put_char(o, *p);
}

static void put_number(struct out *o, uint64_t n, unsigned base, unsigned width)
{
    char reversed[24];
    unsigned count = 0;
    do {
        reversed[count++] = "0123456789abcdef"[n % base];
        n /= base;
    } while (n);
    for (; width > count; width--)
        put_char(o, '0');
    while (count)
        put_char(o, reversed[--count]);
}

static void put_error(struct out *o, int error)
{
    const char *name = glibc_error_name ? glibc_error_name(error) : NULL;
    for (size_t i = 0; !glibc_error_name && i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            name = errors[i].name;
    put_text(o, name ? name : "error ");
    if (!name)
        put_number(o, (uint64_t)error, 10, 0);
}

static void put_unit(char *out, size_t room, int64_t n, const struct unit *units)
{
    struct out o = {out, 0, room};
    const struct unit *u = units;
    while (u[1].name && (n == 0 || n % u->factor))
        u++;
    put_number(&o, (uint64_t)(n / u->factor), 10, 0);
    if (n)
        put_text(&o, u->name);
    out[o.n] = '\0';
}

void dp_text_count(char *out, size_t room, int64_t n)
{
    dp_text_format(out, room, "%lld", (long long)n);
}

void dp_text_size(char *out, size_t room, int64_t n_bytes)
{
    put_unit(out, room, n_bytes, sizes);
}

void dp_text_time(char *out, size_t room, int64_t ns)
{
    put_unit(out, room, ns, times);
}

/* Years begin in March here, so that the leap day is the last one; eras of 400 years are alike. */
void dp_text_utc(char *out, size_t room, int64_t wall_ns)
{
    int64_t seconds = wall_ns / 1000000000, days = seconds / 86400 + 719468, era = days / 146097;
    unsigned of_day = (unsigned)(seconds % 86400), of_era = (unsigned)(days % 146097);
    unsigned year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned march_month = (5 * of_year + 2) / 153, day = of_year - (153 * march_month + 2) / 5 + 1;
    unsigned month = march_month < 10 ? march_month + 3 : march_month - 9;
    unsigned year = year_of_era + (unsigned)era * 400 + (month <= 2);
    dp_text_format(out, room, "%04u-%02u-%02uT%02u:%02u:%02uZ", year, month, day, of_day / 3600, of_day / 60 % 60,
                   of_day % 60);
}

size_t dp_text_vformat(char *out, size_t room, int error_m, const char *format, va_list args)
{
    struct out o = {out, 0, room};
    for (const char *f = format; *f; f++) {
        if (*f != '%') {
            put_char(&o, *f);
            continue;
        }
        unsigned width = 0, longs = 0;
        for (f++; *f >= '0' && *f <= '9'; f++)
            width = width * 10 + (unsigned)(*f - '0');
        for (; *f == 'l' || *f == 'z'; f++)
            longs++;
        if (*f == 's') {
            put_text(&o, va_arg(args, const char *));
        } else if (*f == 'd') {
            int64_t n = longs ? va_arg(args, long long) : va_arg(args, int);
            if (n < 0)
                put_char(&o, '-');
            put_number(&o, n < 0 ? -(uint64_t)n : (uint64_t)n, 10, width);
        } else if (*f == 'u' || *f == 'x') {
            uint64_t n = longs ? va_arg(args, unsigned long long) : va_arg(args, unsigned);
            put_number(&o, n, *f == 'x' ? 16 : 10, width);
        } else if (*f == 'm') {
            put_error(&o, error_m);
        } else if (*f) {
            put_char(&o, *f);
        } else {
            break;
        }
    }
    out[o.n] = '\0';
    return o.n;
}

size_t dp_text_format(char *out, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t n = dp_text_vformat(out, room, errno, format, args);
    va_end(args);
    return n;
}

size_t dp_text_base64(char *to, const uint8_t *bytes, size_t n_bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *at = to;
    for (size_t i = 0; i < n_bytes; i += 3) {
        size_t n = n_bytes - i < 3 ? n_bytes - i : 3;
        uint32_t word =
            (uint32_t)bytes[i] << 16 | (n > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) | (n > 2 ? bytes[i + 2] : 0);
        for (size_t k = 0; k < 4; k++)
            *at++ = k <= n ? digits[word >> (18 - 6 * k) & 63] : '=';
    }
    return (size_t)(at - to);
}
