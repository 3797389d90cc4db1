/* SPDX-License-Identifier: MIT */
/*
 * tool/pack/pack_source.c - adds lines of source files to a pack, for `deltaprof view --source`.
 *
 * A page may be sent to others, so it gets no whole files: only the lines that stacks have, and some lines around each
 * of them, so that a reader sees where they stand.
 */
#include "tool/pack/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINES_AROUND = 6, LINE_BYTES_MAX = 300, FILE_BYTES_MAX = 16 << 20 };

struct place {
    uint32_t file, line;
};

static int by_file_and_line(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    return x->file != y->file ? (x->file > y->file) - (x->file < y->file) : (x->line > y->line) - (x->line < y->line);
}

static int put_number(struct dp_pack *pack, uint64_t number)
{
    uint64_t *to = dp_vec_push(&pack->sources);
    if (!to)
        return -ENOMEM;
    *to = number;
    return 0;
}

static FILE *open_file(const char *path)
{
    struct stat st;
    int fd = *path == '/' ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd < 0)
        return NULL;
    FILE *file = !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size <= FILE_BYTES_MAX ? fdopen(fd, "r") : NULL;
    if (!file)
        close(fd);
    return file;
}

static int put_line(struct dp_pack *pack, uint32_t number, const char *text, size_t n_bytes)
{
    uint32_t string;
    while (n_bytes && (text[n_bytes - 1] == '\n' || text[n_bytes - 1] == '\r'))
        n_bytes--;
    int err = dp_pack_intern(&pack->strings, text, n_bytes < LINE_BYTES_MAX ? n_bytes : LINE_BYTES_MAX, &string);
    return err ?: put_number(pack, number) ?: put_number(pack, string);
}

/* The places are those of one file, in the order of their lines. */
static int put_file(struct dp_pack *pack, const struct place *places, size_t n)
{
    FILE *file = open_file(dp_strings_at(&pack->strings, places[0].file));
    char *text = NULL;
    size_t cap = 0, at = 0, start = pack->sources.n, n_lines = 0;
    ssize_t n_bytes;
    if (!file)
        return 0;
    int err = put_number(pack, places[0].file) ?: put_number(pack, 0);
    for (uint32_t line = 1; !err && at < n && (n_bytes = getline(&text, &cap, file)) >= 0; line++) {
        while (at < n && places[at].line + LINES_AROUND < line)
            at++;
        if (at < n && line + LINES_AROUND >= places[at].line) {
            err = put_line(pack, line, text, (size_t)n_bytes);
            n_lines++;
        }
    }
    free(text);
    fclose(file);
    if (!err && n_lines) {
        pack->sources.at[start + 1] = n_lines;
        pack->n_sources++;
    } else
        pack->sources.n = start;
    return err;
}

int dp_pack_add_sources(struct dp_pack *pack)
{
    size_t n = 0, n_frames = dp_strings_count(&pack->frames);
    struct place *places = malloc((n_frames + 1) * sizeof *places);
    int err = places ? 0 : -ENOMEM;
    for (uint32_t i = 1; i < n_frames && !err; i++) {
        struct dp_pack_frame frame;
        memcpy(&frame, dp_strings_at(&pack->frames, i), sizeof frame);
        if (frame.file && frame.line && !(frame.flags & (DP_PACK_FOREIGN | DP_PACK_LIBRARY)))
            places[n++] = (struct place){frame.file, frame.line};
    }
    if (n)
        qsort(places, n, sizeof *places, by_file_and_line);
    for (size_t i = 0, end; i < n && !err; i = end) {
        for (end = i + 1; end < n && places[end].file == places[i].file;)
            end++;
        err = put_file(pack, places + i, end - i);
    }
    free(places);
    return err;
}
