/* SPDX-License-Identifier: MIT */
/*
 * lock_kinds.c - the file of the key `lock_names`. A line is `PATTERN KIND`: globs (base/glob.h) for the name of a
 * function, then blanks, then one of the kinds below. The last word is the kind, so a pattern may have blanks, as names
 * of C++ functions do. Empty lines and lines that begin with # are skipped.
 *
 * The file's text stays in memory, and rows point into it. [ROWS]: a thread that finds the number of rows may read the
 * rows and the text, because both are written before the number and never again.
 */
#include "config/lock_kinds.h"

#include "base/atomic.h"
#include "base/glob.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/text.h"
#include "config/file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 16384, ROWS_MOST = 256, LISTED_MOST = 8 };

static DP_LARGE char text[TEXT_BYTES];
static DP_LARGE struct {
    const char *globs;
    enum dp_lock_kind kind;
} rows[ROWS_MOST];
static _Atomic unsigned n_rows;

static const char *const words[] = {
    [DP_LOCK_MUTEX] = "mutex", [DP_LOCK_RWLOCK] = "rwlock", [DP_LOCK_ONCE] = "once",       [DP_LOCK_COND] = "cond",
    [DP_LOCK_SEM] = "sem",     [DP_LOCK_PARK] = "park",     [DP_LOCK_BARRIER] = "barrier", [DP_LOCK_PASS] = "pass",
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Cuts the blanks off both ends of [line, end), and ends it with a NUL. */
static char *trim(char *line, char *end)
{
    while (line < end && is_blank(*line))
        line++;
    while (end > line && is_blank(end[-1]))
        end--;
    *end = 0;
    return line;
}

/* Splits a trimmed line into its pattern and its kind. NONE: it is no such line. */
static enum dp_lock_kind split(char *line)
{
    char *kind = line + strlen(line);
    while (kind > line && !is_blank(kind[-1]))
        kind--;
    if (kind == line)
        return DP_LOCK_NONE;
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i] && !strcmp(kind, words[i])) {
            trim(line, kind - 1);
            return i;
        }
    return DP_LOCK_NONE;
}

/* Fills the text. The number of bytes, or a negative errno. */
static ssize_t read_text(const char *path)
{
    int fd = dp_config_file_open(path);
    if (fd < 0)
        return fd;
    ssize_t n = dp_io_read(fd, text, sizeof text);
    close(fd);
    return n == sizeof text ? -EFBIG : n;
}

/* Makes rows of the text. Returns their number; -EINVAL: the numbers of the bad lines are in `bad`. */
static int make_rows(size_t n_bytes, char *bad, size_t room)
{
    unsigned n = 0, n_bad = 0, number = 1;
    size_t at = 0;
    for (char *line = text, *end; line < text + n_bytes; line = end + 1, number++) {
        end = memchr(line, '\n', n_bytes - (size_t)(line - text));
        end = end ? end : text + n_bytes; /* fits: read_text left room for a NUL */
        line = trim(line, end);
        if (!*line || *line == '#')
            continue;
        enum dp_lock_kind kind = n < ROWS_MOST ? split(line) : DP_LOCK_NONE;
        if (kind) {
            rows[n].globs = line;
            rows[n++].kind = kind;
        } else if (++n_bad <= LISTED_MOST) {
            at += dp_text_format(bad + at, room - at, "%s%u", at ? " " : "", number);
        }
    }
    if (n_bad > LISTED_MOST)
        dp_text_format(bad + at, room - at, " and %u more", n_bad - LISTED_MOST);
    return n_bad ? -EINVAL : (int)n;
}

int dp_lock_kinds_read(const char *path, struct dp_config_error *error)
{
    char bad[LISTED_MOST * 12 + 32];
    if (dp_load_relaxed(&n_rows))
        return 0;
    ssize_t n_bytes = read_text(path);
    if (n_bytes < 0) {
        errno = (int)-n_bytes;
        dp_text_format(error->line, sizeof error->line, "lock_names=%s: %m", path);
        return (int)n_bytes;
    }
    int n = make_rows((size_t)n_bytes, bad, sizeof bad);
    if (n < 0) {
        dp_text_format(error->line, sizeof error->line,
                       "lock_names: bad lines (%s): a line is PATTERN and mutex, rwlock, once, cond, sem, park, "
                       "barrier or pass, there are at most %u: %s",
                       bad, (unsigned)ROWS_MOST, path);
        return n;
    }
    dp_store_release(&n_rows, (unsigned)n); /* [ROWS] else a report could match a row that is not written yet */
    return 0;
}

enum dp_lock_kind dp_lock_kinds_find(const char *name)
{
    unsigned n = dp_load_acquire(&n_rows); /* [ROWS] */
    for (unsigned i = 0; i < n; i++)
        if (dp_glob_matches(rows[i].globs, name))
            return rows[i].kind;
    return DP_LOCK_NONE;
}
