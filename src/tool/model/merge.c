/* SPDX-License-Identifier: MIT */
/*
 * tool/model/merge.c - merges profiles: sums values by row; a sum that overflows stays at the largest number.
 *
 * In-use values are kept apart until all profiles have been added: only then it is known whether several processes
 * count, and so whether memory that they inherited is left out.
 */
#include "tool/model/merge.h"

#include "profile/comments.h"
#include "profile/kinds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct adding {
    struct dp_model_merge *merge;
    struct dp_model_merge_kept *kept; /* receives the in-use values of samples; NULL: they are dropped */
    size_t first_kept;                /* of the profile */
};

bool dp_model_merge_is_state(const struct dp_model_merge *merge, size_t type)
{
    return dp_model_moments_is_state(&merge->model, type);
}

static int room_for_rows(struct dp_model_merge *merge)
{
    size_t n = merge->model.rows.n * merge->model.types.n;
    if (n <= merge->values.n)
        return 0;
    int64_t *new_values = dp_vec_room(&merge->values, n - merge->values.n);
    if (!new_values)
        return -ENOMEM;
    memset(new_values, 0, (n - merge->values.n) * sizeof *new_values);
    merge->values.n = n;
    return 0;
}

static int keep_value(struct dp_model_merge *merge, struct dp_model_merge_kept *kept, uint32_t row, uint32_t type,
                      int64_t value)
{
    struct dp_model_moment_value *to = dp_vec_push(&merge->kept_values);
    if (!to)
        return -ENOMEM;
    *to = (struct dp_model_moment_value){.row = row, .type = type, .value = value};
    kept->n++;
    return 0;
}

/* Adds to the sums of bytes of a moment. */
static void count_bytes(const struct dp_model_merge *merge, struct dp_model_moment *moment, uint32_t row, size_t type,
                        int64_t value)
{
    if (strcmp(dp_model_text(&merge->model, merge->model.types.at[type].type), "inuse_space"))
        return;
    dp_model_merge_sum(&moment->bytes, value);
    if (!dp_model_merge_is_inherited(&merge->model, row))
        dp_model_merge_sum(&moment->own_bytes, value);
}

static int add_row(void *ctx, uint32_t row, const int64_t *values)
{
    struct adding *adding = ctx;
    struct dp_model_merge *merge = adding->merge;
    size_t n_types = merge->model.types.n;
    int err = room_for_rows(merge);
    for (size_t i = 0; i < n_types && !err; i++) {
        if (!values[i])
            continue;
        if (!dp_model_merge_is_state(merge, i)) {
            dp_model_merge_sum(&merge->values.at[row * n_types + i], values[i]);
        } else if (adding->kept) {
            count_bytes(merge, &adding->kept->part.moment, row, i, values[i]);
            err = keep_value(merge, adding->kept, row, (uint32_t)i, values[i]);
        }
    }
    return err;
}

/* A value of a moment of the profile; moments come one after the other. */
static int add_moment_value(void *ctx, size_t moment, uint32_t row, uint32_t type, int64_t value)
{
    struct adding *adding = ctx;
    struct dp_model_merge_kept *kept = &adding->merge->kept.at[adding->first_kept + moment];
    if (!kept->n)
        kept->first = adding->merge->kept_values.n;
    return keep_value(adding->merge, kept, row, type, value);
}

bool dp_model_merge_says(const struct dp_decode *d, const char *comment)
{
    for (size_t i = 0; i < d->comments.n; i++)
        if (dp_decode_is_text(d, d->comments.at[i], comment))
            return true;
    return false;
}

bool dp_model_merge_was_killed(const struct dp_decode *d)
{
    return dp_model_merge_says(d, DP_COMMENT_KILLED) ||
           (dp_model_merge_says(d, DP_COMMENT_ENDED) && dp_model_merge_says(d, DP_COMMENT_EXIT));
}

int64_t dp_model_merge_number(const struct dp_decode *d, const char *begin, int64_t none)
{
    int64_t number;
    for (size_t i = 0; i < d->comments.n; i++) {
        size_t n_bytes;
        const char *text = dp_decode_text(d, d->comments.at[i], &n_bytes);
        if (dp_profile_comment_number(text, n_bytes, begin, &number))
            return number;
    }
    return none;
}

static int by_begin(const void *a, const void *b)
{
    const struct dp_model_merge_window *x = a, *y = b;
    return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

int64_t dp_model_merge_covered_ns(struct dp_model_merge *merge)
{
    int64_t covered_ns = 0, end_ns = INT64_MIN;
    if (merge->windows.n)
        qsort(merge->windows.at, merge->windows.n, sizeof *merge->windows.at, by_begin);
    for (size_t i = 0; i < merge->windows.n; i++) {
        const struct dp_model_merge_window *w = &merge->windows.at[i];
        int64_t begin_ns = w->begin_ns > end_ns ? w->begin_ns : end_ns;
        if (w->end_ns > begin_ns)
            dp_model_merge_sum(&covered_ns, w->end_ns - begin_ns);
        end_ns = w->end_ns > end_ns ? w->end_ns : end_ns;
    }
    return covered_ns;
}

static int add_profile(struct dp_model_merge *merge, const struct dp_decode *d, struct adding *adding,
                       struct dp_decode_error *error)
{
    uint32_t main_before = merge->model.main_mapping;
    struct dp_model_merge_window *window = dp_vec_push(&merge->windows);
    if (!window)
        return -ENOMEM;
    *window = (struct dp_model_merge_window){d->time_ns, d->time_ns};
    if (d->duration_ns > 0)
        dp_model_merge_sum(&window->end_ns, d->duration_ns);
    int err = dp_model_add(&merge->model, d, add_row, adding, error);
    if (main_before)
        merge->model.main_mapping = main_before; /* the main mapping stays that of the first profile */
    if (!err && merge->n_profiles++ == 0)
        err = dp_model_header_fill(&merge->header, &merge->model, d);
    else if (!err)
        err = dp_model_header_join(&merge->header, &merge->model, d);
    return err;
}

/* Room for the parts; their values follow. */
static int keep_parts(struct dp_model_merge *merge, const struct dp_model_merge_part *parts, size_t n_parts)
{
    for (size_t i = 0; i < n_parts; i++) {
        struct dp_model_merge_kept *kept = dp_vec_push(&merge->kept);
        if (!kept)
            return -ENOMEM;
        *kept = (struct dp_model_merge_kept){.part = parts[i], .first = merge->kept_values.n};
    }
    return 0;
}

/* The values of the moments that count, or of all, of a merged profile. */
static int add_moments(struct adding *adding, const struct dp_decode *d, size_t n_parts, struct dp_decode_error *error)
{
    struct dp_model_merge *merge = adding->merge;
    DP_VEC(bool) wanted = {0};
    if (!dp_vec_room(&wanted, n_parts + 1))
        return -ENOMEM;
    for (size_t i = 0; i < n_parts; i++)
        wanted.at[i] = merge->keeps_moments || merge->kept.at[adding->first_kept + i].part.counts;
    int err = dp_model_moments_values(d, &merge->model, wanted.at, add_moment_value, adding);
    if (err == -EBADMSG)
        dp_decode_fail(error, "the in-use values of a merged profile are broken");
    dp_vec_fini(&wanted);
    return err;
}

int dp_model_merge_add(struct dp_model_merge *merge, const struct dp_decode *d, const struct dp_model_merge_part *parts,
                       size_t n_parts, struct dp_decode_error *error)
{
    struct dp_model_moments moments = {.at = {0}};
    struct adding adding = {.merge = merge, .first_kept = merge->kept.n};
    int err = dp_model_moments_read(d, &moments);
    bool has_moments = moments.at.n > 0 && moments.at.n == n_parts;
    dp_vec_fini(&moments.at);
    if (!err && n_parts)
        err = keep_parts(merge, parts, n_parts);
    if (!err && n_parts && !has_moments && (merge->keeps_moments || parts[0].counts)) {
        adding.kept = &merge->kept.at[adding.first_kept];
        adding.kept->part.moment.bytes = adding.kept->part.moment.own_bytes = 0;
    }
    if (!err)
        err = add_profile(merge, d, &adding, error);
    if (!err && has_moments && merge->model.is_mapped)
        err = dp_decode_fail(error, "a merged profile with other sample types than the one before it");
    if (!err && has_moments)
        err = add_moments(&adding, d, n_parts, error);
    if (err == -ENOMEM)
        dp_decode_fail(error, "out of memory");
    return err;
}

int dp_model_merge_add_whole(struct dp_model_merge *merge, const struct dp_decode *d, struct dp_decode_error *error)
{
    struct adding adding = {.merge = merge, .first_kept = merge->kept.n};
    struct dp_model_merge_part part = {.counts = true};
    int err = keep_parts(merge, &part, 1);
    if (!err) {
        adding.kept = &merge->kept.at[adding.first_kept];
        err = add_profile(merge, d, &adding, error);
    }
    if (err == -ENOMEM)
        dp_decode_fail(error, "out of memory");
    return err;
}

/* ---- what is in use --------------------------------------------------------------------------------------------- */

bool dp_model_merge_is_inherited(const struct dp_model *m, uint32_t row)
{
    for (uint32_t i = 0; i < dp_model_n_labels(m, row); i++) {
        const struct dp_model_label *label = &m->labels.at[dp_model_labels(m, row)[i]];
        if (label->str && !strcmp(dp_model_text(m, label->key), DP_MERGE_FORK) &&
            !strcmp(dp_model_text(m, label->str), DP_MERGE_INHERITED))
            return true;
    }
    return false;
}

static void add_kept(struct dp_model_merge *merge, const struct dp_model_merge_kept *kept)
{
    bool without = false;
    for (size_t i = kept->first; i < kept->first + kept->n; i++) {
        const struct dp_model_moment_value *v = &merge->kept_values.at[i];
        if (merge->n_counted > 1 && !merge->with_inherited && dp_model_merge_is_inherited(&merge->model, v->row))
            without = true;
        else
            dp_model_merge_sum(&merge->values.at[v->row * merge->model.types.n + v->type], v->value);
    }
    merge->n_without += without;
}

/* Leaves out the comments that begin so. */
static void forget_comments(struct dp_model_merge *merge, const char *beginning)
{
    size_t n = 0;
    for (size_t i = 0; i < merge->header.comments.n; i++)
        if (strncmp(dp_model_text(&merge->model, merge->header.comments.at[i]), beginning, strlen(beginning)))
            merge->header.comments.at[n++] = merge->header.comments.at[i];
    merge->header.comments.n = n;
}

int dp_model_merge_comment(struct dp_model_merge *merge, const char *beginning, const char *text)
{
    forget_comments(merge, beginning);
    uint32_t string = dp_strings_add(&merge->model.strings, text, strlen(text));
    uint32_t *to = string == DP_STRINGS_NONE ? NULL : dp_vec_push(&merge->header.comments);
    if (!to)
        return -ENOMEM;
    *to = string;
    return 0;
}

int dp_model_merge_choose(struct dp_model_merge *merge)
{
    if (room_for_rows(merge))
        return -ENOMEM;
    for (size_t i = 0; i < merge->kept.n; i++)
        merge->n_counted += merge->kept.at[i].part.counts;
    for (size_t i = 0; i < merge->kept.n; i++)
        if (merge->kept.at[i].part.counts)
            add_kept(merge, &merge->kept.at[i]);
    if (merge->goes_on)
        forget_comments(merge, DP_COMMENT_ENDED); /* a sum that holds a process which goes on has not ended */
    if (merge->n_profiles > 1)
        forget_comments(merge, DP_COMMENT_ALLOCATED); /* totals of several times are no total */
    return 0;
}

static int write_moments(struct dp_model_merge *merge, struct dp_model_write *write)
{
    DP_VEC(struct dp_model_moment_values) moments = {0};
    if (!dp_vec_room(&moments, merge->kept.n + 1))
        return -ENOMEM;
    for (size_t i = 0; i < merge->kept.n; i++) {
        const struct dp_model_merge_kept *kept = &merge->kept.at[i];
        moments.at[i] =
            (struct dp_model_moment_values){kept->part.moment, merge->kept_values.at + kept->first, kept->n};
    }
    int err = dp_model_moments_write(write, moments.at, merge->kept.n);
    dp_vec_fini(&moments);
    return err;
}

int dp_model_merge_write(struct dp_model_merge *merge, dp_pprof_write_fn fn, void *ctx)
{
    struct dp_model_write write;
    size_t n_types = merge->model.types.n;
    int err = dp_model_write_begin(&write, &merge->model, &merge->header, fn, ctx);
    for (uint32_t row = 0; row < merge->model.rows.n && !err; row++) {
        const int64_t *values = &merge->values.at[row * n_types];
        if (!dp_encode_is_zero(values, n_types))
            err = dp_model_write_row(&write, row, values);
    }
    if (!err && merge->keeps_moments)
        err = write_moments(merge, &write);
    if (!err)
        err = dp_model_write_finish(&write);
    dp_model_write_fini(&write);
    return err;
}

void dp_model_merge_fini(struct dp_model_merge *merge)
{
    dp_vec_fini(&merge->kept);
    dp_vec_fini(&merge->kept_values);
    dp_vec_fini(&merge->values);
    dp_vec_fini(&merge->windows);
    dp_model_header_fini(&merge->header);
    dp_model_fini(&merge->model);
}
