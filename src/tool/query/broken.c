/* SPDX-License-Identifier: MIT */
/*
 * tool/query/broken.c - leaves out broken files, so that one of them does not hide all others.
 *
 * Readers first assume that all files can be read. When one cannot, they call this, and start again with the rest:
 * files are read twice only then. A command that reads the files several times names each of them once.
 */
#include "tool/query/print.h"
#include "tool/query/files.h"
#include "tool/query/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct dp_strings left_out; /* their paths; 0 is "" */

bool dp_query_leave_out(const char *file)
{
    size_t n_before = dp_query_n_left_out();
    return dp_strings_add(&left_out, file, strlen(file)) == DP_STRINGS_NONE || dp_query_n_left_out() > n_before;
}

size_t dp_query_n_left_out(void)
{
    size_t n = dp_strings_count(&left_out);
    return n ? n - 1 : 0;
}

void dp_query_say_left_out(const char *verb, size_t n_before)
{
    size_t n = dp_query_n_left_out();
    if (n > n_before)
        dp_query_print_error(verb, "%zu file%s left out, see above", n, n == 1 ? " is" : "s are");
}

int dp_query_end_command(int status)
{
    bool is_complete = !dp_query_n_left_out();
    dp_strings_fini(&left_out);
    return status || is_complete ? status : DP_EXIT_FAILED;
}

/* Reads all samples: a file may be broken in the middle. */
static int read_all(const char *verb, const char *file, size_t limit_bytes, struct dp_query_source *source)
{
    struct dp_decode_sample sample = {.values = {0}};
    struct dp_decode_error error = {""};
    int status = dp_query_read_file(verb, file, limit_bytes, source), err = 0;
    for (size_t i = 0; i < source->decode.samples.n && !status && !err; i++)
        err = dp_decode_sample(&source->decode, i, &sample, &error);
    dp_decode_sample_fini(&sample);
    if (err && err != -ENOMEM && source->is_quiet)
        return DP_QUERY_BROKEN;
    return err ? dp_query_refuse(verb, file, err, &error) : status;
}

bool dp_query_may_sift(const struct dp_query_paths *paths)
{
    for (size_t i = 0; i < paths->n; i++)
        if (!strcmp(paths->at[i], "-"))
            return false;
    return paths->n > 1;
}

/* Whether the file is no longer there, and was found in a directory. */
static bool is_gone(const struct dp_query_paths *paths, const char *file)
{
    for (size_t i = 0; i < paths->n_given; i++)
        if (!strcmp(paths->given[i], file))
            return false;
    return access(file, F_OK) && errno == ENOENT;
}

int dp_query_skip_broken(struct dp_query_paths *paths, const char *verb, size_t limit_bytes)
{
    struct dp_query_source source = {.is_quiet = false};
    size_t n = 0, n_broken = 0, n_before = dp_query_n_left_out();
    for (size_t i = 0; i < paths->n; i++) {
        source.is_quiet = true;
        bool is_bad = read_all(verb, paths->at[i], limit_bytes, &source);
        source.is_quiet = false;
        bool is_broken = is_bad && !is_gone(paths, paths->at[i]);
        n_broken += is_broken;
        if (is_broken && dp_query_leave_out(paths->at[i]))
            read_all(verb, paths->at[i], limit_bytes, &source); /* again, for its line */
        if (is_bad)
            free(paths->at[i]);
        else
            paths->at[n++] = paths->at[i];
    }
    paths->n = n;
    dp_query_source_fini(&source);
    if (!n && !n_broken)
        dp_query_print_error(verb, "the files were deleted while they were read");
    if (n)
        dp_query_say_left_out(verb, n_before);
    return n ? 0 : DP_EXIT_FAILED;
}
