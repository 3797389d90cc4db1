/* SPDX-License-Identifier: MIT */
/*
 * tests/support/profiles.h - a sink that fails after a given number of bytes, and the sums of the profiles that it got,
 * read by src/pprof. The tests that use it check which values consumers deliver, and when. Other tests check the bytes
 * with an independent reader.
 */
#pragma once

#include "base/mem.h"
#include "pprof/decode.h"
#include "host/report/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct dp_gzip_ops dp_module_gzip;
static const void *const with_gzip __attribute__((used)) = &dp_module_gzip; /* links it in */

struct taken {
    DP_VEC(char) bytes;
    size_t fail_after;       /* 0: never; else -EIO once that many bytes have come */
    void (*meanwhile)(void); /* called at the first piece */
};

static inline int take(void *ctx, const void *bytes, size_t n_bytes)
{
    struct taken *t = ctx;
    void (*meanwhile)(void) = t->meanwhile;
    t->meanwhile = NULL;
    if (meanwhile)
        meanwhile();
    if (t->fail_after && t->bytes.n + n_bytes >= t->fail_after)
        return -5;
    char *room = dp_vec_room(&t->bytes, n_bytes);
    memcpy(room, bytes, n_bytes);
    t->bytes.n += n_bytes;
    return 0;
}

enum { SAID_ROWS_MAX = 4096 };

/* The content of a profile: sums of its columns, and the values of rows by the address of their leaf. */
struct said {
    int64_t sums[4], time_ns, duration_ns;
    size_t n_rows, n_locations, n_mappings, n_zipped;
    struct said_row {
        uint64_t leaf;
        int64_t values[4];
        char label[32], leaf_name[32];
    } rows[SAID_ROWS_MAX];
};

/* Empties t first. Ends the test if the bytes are no profile. */
static inline void read_taken(struct taken *t, struct said *said)
{
    struct dp_decode_input input = {0};
    struct dp_decode_error error;
    struct dp_decode d = {0};
    struct dp_decode_sample s = {0};
    memset(said, 0, sizeof *said);
    if (dp_decode_input_copy(&input, t->bytes.at, t->bytes.n, DP_DECODE_LIMIT, &error) ||
        dp_decode_scan(&d, input.bytes.at, input.bytes.n, &error)) {
        fprintf(stderr, "no profile: %s\n", error.line);
        abort();
    }
    said->time_ns = d.time_ns;
    said->duration_ns = d.duration_ns;
    said->n_rows = d.samples.n;
    said->n_locations = d.locations.n;
    said->n_mappings = d.mappings.n;
    said->n_zipped = t->bytes.n;
    for (size_t i = 0; i < d.samples.n; i++) {
        if (dp_decode_sample(&d, i, &s, &error))
            abort();
        struct said_row spare, *row = i < SAID_ROWS_MAX ? &said->rows[i] : &spare;
        const struct dp_decode_location *leaf = &d.locations.at[s.locations.at[0]];
        size_t n;
        row->leaf = leaf->address;
        if (leaf->n_lines) {
            const struct dp_decode_function *f = &d.functions.at[d.lines.at[leaf->first_line].function - 1];
            const char *name = dp_decode_text(&d, f->name, &n);
            snprintf(row->leaf_name, sizeof row->leaf_name, "%.*s", (int)n, name);
        }
        if (s.labels.n) {
            const char *text = dp_decode_text(&d, s.labels.at[0].str, &n);
            snprintf(row->label, sizeof row->label, "%.*s", (int)n, text);
        }
        for (size_t v = 0; v < s.values.n && v < 4; v++) {
            row->values[v] = s.values.at[v];
            said->sums[v] += s.values.at[v];
        }
    }
    dp_decode_sample_fini(&s);
    dp_decode_fini(&d);
    dp_decode_input_fini(&input);
    dp_vec_fini(&t->bytes);
}

static inline const struct said_row *row_of(const struct said *said, uint64_t leaf)
{
    for (size_t i = 0; i < said->n_rows && i < SAID_ROWS_MAX; i++)
        if (said->rows[i].leaf == leaf)
            return &said->rows[i];
    return NULL;
}
