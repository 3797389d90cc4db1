/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/generated.c - reads /tmp/perf-PID.map, which node --perf-basic-prof, python3 -X perf and others write.
 *
 * Only the addresses are kept, with the place of the name in the file. The file is opened for each step and closed
 * again, because threads of the profiler have descriptor tables of their own. It must be a regular file of this user:
 * anyone may create files in /tmp.
 *
 * V8 describes JavaScript as "JS:~name file:line:column"; the mark tells how it was compiled.
 */
#include "host/symbols/generated.h"

#include "base/mem.h"
#include "base/text.h"
#include "host/symbols/outside.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK_BYTES = 32 << 10, NAME_BYTES = 1024 };

static struct {
    DP_VEC(struct piece {
        uintptr_t start;
        uint32_t n_bytes;
        uint32_t n_name;
        off_t name; /* where it stands in the file */
    })
    pieces;
    off_t read; /* up to here, the end of a line */
} map;

static int open_map(off_t *n_bytes)
{
    char path[64];
    struct stat st;
    int pid = dp_symbols_outside.is_on ? dp_symbols_outside.pid : (int)getpid();
    if (!pid)
        return -1;
    dp_text_format(path, sizeof path, "/tmp/perf-%d.map", pid);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
        close(fd);
        return -1;
    }
    *n_bytes = st.st_size;
    return fd;
}

/* "START SIZE NAME", without its newline. Other lines are passed over. False: no memory. */
static bool add_line(const char *line, size_t n_bytes, off_t at)
{
    char *end;
    uintptr_t start = strtoull(line, &end, 16);
    if (*end != ' ' || end == line)
        return true;
    const char *size = end + 1;
    uint64_t n = strtoull(size, &end, 16);
    if (*end != ' ' || end == size || !n || n > UINT32_MAX || start + n < start)
        return true;
    size_t name = (size_t)(end + 1 - line);
    if (name >= n_bytes)
        return true;
    struct piece *piece = dp_vec_push(&map.pieces);
    if (piece)
        *piece = (struct piece){start, (uint32_t)n, (uint32_t)(n_bytes - name), at + (off_t)name};
    return piece != NULL;
}

/* Adds the whole lines of a chunk; returns their bytes, negative: no memory. A line that fills a chunk is passed over.
 */
static ssize_t add_lines(char *chunk, size_t n_bytes)
{
    size_t done = 0;
    for (char *end; (end = memchr(chunk + done, '\n', n_bytes - done)); done = (size_t)(end - chunk) + 1) {
        *end = 0;
        if (!add_line(chunk + done, (size_t)(end - chunk) - done, map.read + (off_t)done))
            return -1;
    }
    return !done && n_bytes == CHUNK_BYTES ? (ssize_t)n_bytes : (ssize_t)done;
}

void dp_symbols_generated_refresh(void)
{
    static DP_LARGE char chunk[CHUNK_BYTES + 1];
    off_t n_bytes;
    int fd = open_map(&n_bytes);
    if (fd < 0)
        return;
    if (n_bytes < map.read) { /* another file */
        dp_vec_clear(&map.pieces);
        map.read = 0;
    }
    ssize_t n, used = 1;
    while (used > 0 && (n = pread(fd, chunk, CHUNK_BYTES, map.read)) > 0) {
        used = add_lines(chunk, (size_t)n);
        map.read += used > 0 ? used : 0;
    }
    close(fd);
}

/* Takes V8's description apart, in place. */
static void describe(char *name, struct dp_symbol_line *line)
{
    *line = (struct dp_symbol_line){.name = name};
    if (strncmp(name, "JS:", 3) != 0)
        return;
    char *function = name + 3 + (name[3] && strchr("~^+*-", name[3]) != NULL), *file = strrchr(function, ' ');
    char *column = file ? strrchr(file, ':') : NULL;
    if (!column)
        return;
    *column = 0;
    char *number = strrchr(file, ':');
    if (!number) {
        *column = ':';
        return;
    }
    *number = *file = 0;
    line->name = *function ? function : "(anonymous)";
    line->file = file + 1;
    line->start_line = strtoll(number + 1, NULL, 10);
}

bool dp_symbols_generated_find(uintptr_t pc, struct dp_symbol_line *line)
{
    static DP_LARGE char name[NAME_BYTES];
    size_t i = map.pieces.n;
    while (i && pc - map.pieces.at[i - 1].start >= map.pieces.at[i - 1].n_bytes)
        i--;
    if (!i)
        return false;
    const struct piece *piece = &map.pieces.at[i - 1];
    size_t n = piece->n_name < NAME_BYTES ? piece->n_name : NAME_BYTES - 1;
    off_t n_bytes;
    int fd = open_map(&n_bytes);
    bool found = fd >= 0 && pread(fd, name, n, piece->name) == (ssize_t)n;
    if (fd >= 0)
        close(fd);
    name[n] = 0;
    if (found)
        describe(name, line);
    return found;
}

void dp_symbols_generated_abandon(void)
{
    memset(&map, 0, sizeof map);
}
