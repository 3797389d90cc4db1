/* SPDX-License-Identifier: MIT */
/*
 * query/broken.c - leaves out broken files, so that one of them does not hide all others.
 *
 * Readers first assume that all files can be read. When one cannot, they call this, and start again with the rest:
 * files are read twice only then.
 */
#include "print/print.h"
#include "query/files.h"
#include "query/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Reads all samples: a file may be broken in the middle. */
static int read_all(const char *verb, const char *file, size_t limit_bytes, struct dp_query_source *source)
{
    struct dp_decode_sample sample = {.values = {0}};
    struct dp_decode_error error = {""};
    int status = dp_query_read_file(verb, file, limit_bytes, source), err = 0;
    for (size_t i = 0; i < source->decode.samples.n && !status && !err; i++)
        err = dp_decode_sample(&source->decode, i, &sample, &error);
    dp_decode_sample_fini(&sample);
    return err ? dp_query_refuse(verb, file, err, &error) : status;
}

bool dp_query_may_sift(const struct dp_query_paths *paths)
{
    for (size_t i = 0; i < paths->n; i++)
        if (!strcmp(paths->at[i], "-"))
            return false;
    return paths->n > 1;
}

int dp_query_leave_out_broken(struct dp_query_paths *paths, const char *verb, size_t limit_bytes, size_t *n_left_out)
{
    struct dp_query_source source = {.is_quiet = false};
    size_t n = 0;
    for (size_t i = 0; i < paths->n; i++) {
        if (!read_all(verb, paths->at[i], limit_bytes, &source)) {
            paths->at[n++] = paths->at[i];
            continue;
        }
        free(paths->at[i]);
        ++*n_left_out;
    }
    paths->n = n;
    dp_query_source_fini(&source);
    if (n && *n_left_out)
        dp_print_error(verb, "%zu file%s left out, see above", *n_left_out, *n_left_out == 1 ? " is" : "s are");
    return n ? 0 : DP_EXIT_FAILED;
}
