/* SPDX-License-Identifier: MIT */
/*
 * tool/push/unit_profile.c - reads the files of a unit into one model, and divides it into parts.
 *
 * A part has all rows and types, with three exceptions. Parca takes a profile with a duration as a delta, so a heap
 * profile becomes two parts, allocations and in-use values. Parca drops the labels of samples, so a lock profile
 * becomes one part for each kind of lock: else a user could not leave out the idle waits for conditions. A profile with
 * more rows or bytes than the receiver takes is cut by rows. Sums over the parts equal those of the files.
 */
#include "tool/push/unit_profile.h"

#include "base/io.h"
#include "profile/kinds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_MAX ((off_t)256 << 20)

int dp_push_bytes_append(void *bytes, const void *more, size_t n_more)
{
    struct dp_push_bytes *to = bytes;
    if (!dp_vec_room(to, n_more))
        return -ENOMEM;
    memcpy(to->at + to->n, more, n_more);
    to->n += n_more;
    return 0;
}

static int read_file(struct dp_push_profile *p, int dir_fd, const char *name)
{
    struct stat st;
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int err = fd < 0 || fstat(fd, &st) ? -errno : 0;
    if (!err && (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX))
        err = -EFBIG;
    dp_vec_clear(&p->file);
    if (!err && !dp_vec_room(&p->file, (size_t)st.st_size + 1))
        err = -ENOMEM;
    ssize_t n = err ? err : dp_io_read(fd, p->file.at, (size_t)st.st_size);
    if (n >= 0)
        p->file.n = (size_t)n;
    if (fd >= 0)
        close(fd);
    return n < 0 ? (int)n : 0;
}

/* Two FNV-1a hashes of the keys. */
static void add_to_id(uint8_t id[16], const char *key)
{
    for (int half = 0; half < 2; half++) {
        uint64_t hash;
        memcpy(&hash, id + 8 * half, 8);
        hash = hash ? hash : UINT64_C(0xcbf29ce484222325) + (uint64_t)half;
        for (const char *c = key; *c; c++)
            hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
        memcpy(id + 8 * half, &hash, 8);
    }
}

/* Reads a file into p->file, and scans it. */
static int scan_file(struct dp_push_profile *p, int dir_fd, const char *name, struct dp_decode_input *input,
                     struct dp_decode *decode, struct dp_decode_error *error)
{
    int err = read_file(p, dir_fd, name);
    if (!err && !p->file.n)
        err = dp_decode_fail(error, "empty");
    if (!err)
        err = dp_decode_input_copy(input, p->file.at, p->file.n, DP_DECODE_LIMIT / 2, error);
    return err ? err : dp_decode_scan(decode, input->bytes.at, input->bytes.n, error);
}

/* ---- parts ------------------------------------------------------------------------------------------------------ */

static struct dp_model_header header_of(struct dp_push_profile *p, const struct dp_push_part *part, int64_t now_ns)
{
    struct dp_model_header header = p->merge.header; /* the vectors stay the merge's */
    dp_push_profile_window(p, now_ns, &header.time_ns, &header.duration_ns);
    if (part->is_state) {
        header.time_ns += header.duration_ns;
        header.duration_ns = 0;
    }
    for (uint32_t i = 0; i < part->n_types && header.default_type; i++)
        if (p->merge.model.types.at[part->first_type + i].type == header.default_type)
            return header;
    header.default_type = 0;
    return header;
}

/* Writes the part, not gzipped. Comments are added by the caller, in the header. */
static int write_part(struct dp_push_profile *p, const struct dp_push_part *part, const struct dp_model_header *header,
                      dp_pprof_write_fn fn, void *ctx)
{
    struct dp_model model = p->merge.model; /* a view of it with some of its types */
    size_t n_types = model.types.n;
    model.types.at += part->first_type;
    model.types.n = part->n_types;
    struct dp_model_write write;
    int err = dp_model_write_begin(&write, &model, header, fn, ctx);
    for (uint32_t i = 0; i < part->n_rows && !err; i++) {
        uint32_t row = p->rows.at[part->first_row + i];
        const int64_t *values = &p->merge.values.at[row * n_types + part->first_type];
        if (!dp_encode_is_zero(values, part->n_types))
            err = dp_model_write_row(&write, row, values);
    }
    if (!err)
        err = dp_model_write_finish(&write);
    dp_model_write_fini(&write);
    return err;
}

static int count_bytes(void *ctx, const void *bytes, size_t n_bytes)
{
    (void)bytes;
    *(size_t *)ctx += n_bytes;
    return 0;
}

/* Adds the part, or its halves if the receiver does not take so much. A part of one row is added in any case. */
static int add_part(struct dp_push_profile *p, struct dp_push_part part)
{
    bool fits = !p->limits.n_rows || part.n_rows <= p->limits.n_rows;
    if (fits && p->limits.n_bytes && part.n_rows > 1) {
        struct dp_model_header header = header_of(p, &part, 0);
        size_t n_bytes = 0;
        int err = write_part(p, &part, &header, count_bytes, &n_bytes);
        if (err)
            return err;
        fits = n_bytes + 256 <= p->limits.n_bytes; /* a comment may be added */
    }
    if (fits) {
        struct dp_push_part *to = dp_vec_push(&p->parts);
        if (to)
            *to = part;
        return to ? 0 : -ENOMEM;
    }
    struct dp_push_part rest = part;
    part.n_rows = p->limits.n_rows && part.n_rows > p->limits.n_rows ? (uint32_t)p->limits.n_rows : part.n_rows / 2;
    rest.first_row += part.n_rows;
    rest.n_rows -= part.n_rows;
    int err = add_part(p, part);
    return err ? err : add_part(p, rest);
}

static int add_rows(struct dp_push_profile *p)
{
    size_t n_types = p->merge.model.types.n;
    dp_vec_clear(&p->rows);
    if (!dp_vec_room(&p->rows, p->merge.model.rows.n + 1))
        return -ENOMEM;
    for (uint32_t row = 0; row < p->merge.model.rows.n; row++)
        if (!dp_encode_is_zero(&p->merge.values.at[row * n_types], n_types))
            p->rows.at[p->rows.n++] = row;
    return 0;
}

/* The row's kind of lock; NULL: it has none. */
static const char *lock_of(const struct dp_model *m, uint32_t row)
{
    for (uint32_t i = 0; i < dp_model_n_labels(m, row); i++) {
        const struct dp_model_label *label = &m->labels.at[dp_model_labels(m, row)[i]];
        if (label->str && !strcmp(dp_model_text(m, label->key), "lock"))
            return dp_model_text(m, label->str);
    }
    return NULL;
}

static int compare_locks(const char *x, const char *y)
{
    return x && y ? strcmp(x, y) : !!x - !!y;
}

/* Rows without a lock first; rows of one kind stay in their order. */
static int by_lock(const void *a, const void *b, void *model)
{
    const uint32_t *x = a, *y = b;
    int order = compare_locks(lock_of(model, *x), lock_of(model, *y));
    return order ? order : (*x > *y) - (*x < *y);
}

/* Adds a part for each kind of lock, of which no row may have any. */
static int add_part_by_lock(struct dp_push_profile *p, struct dp_push_part all)
{
    const struct dp_model *m = &p->merge.model;
    int err = 0;
    qsort_r(p->rows.at, p->rows.n, sizeof *p->rows.at, by_lock, &p->merge.model);
    for (uint32_t first = 0, end; first < all.n_rows && !err; first = end) {
        const char *lock = lock_of(m, p->rows.at[first]);
        for (end = first + 1; end < all.n_rows && !compare_locks(lock, lock_of(m, p->rows.at[end]));)
            end++;
        struct dp_push_part part = all;
        part.first_row = first;
        part.n_rows = end - first;
        part.lock = lock;
        if (lock || part.n_rows < all.n_rows)
            dp_vec_clear(&p->file); /* is not sent as it is */
        err = add_part(p, part);
    }
    return err;
}

static int add_parts(struct dp_push_profile *p, bool apart)
{
    uint32_t n_types = (uint32_t)p->merge.model.types.n, n_flows = 0;
    while (n_flows < n_types && !dp_model_merge_is_state(&p->merge, n_flows))
        n_flows++;
    dp_vec_clear(&p->parts);
    int err = add_rows(p);
    struct dp_push_part all = {.n_rows = (uint32_t)p->rows.n, .n_types = n_types};
    if (err || !all.n_rows)
        return err;
    if (!apart)
        return add_part(p, all);
    if (!n_flows || n_flows == n_types)
        return add_part_by_lock(p, all);
    struct dp_push_part flows = all, states = all;
    flows.n_types = states.first_type = n_flows;
    states.n_types = n_types - n_flows;
    states.is_state = true;
    err = add_part(p, flows);
    return err ? err : add_part(p, states);
}

/*
 * Parca 0.28 accepts a profile without a period type, and can then answer no query any more. Pyroscope 2 answers 500 if
 * it also has a negative value. The profiler's files have a period type; files of others may not.
 */
static void add_period_type(struct dp_push_profile *p)
{
    if (p->merge.header.has_period_type || !p->merge.model.types.n)
        return;
    p->merge.header.has_period_type = true;
    p->merge.header.period_type = p->merge.model.types.at[0];
    dp_vec_clear(&p->file); /* is not sent as it is */
}

/* The sum of inuse_space; 0 if there is no such type. */
static int sum_in_use(const struct dp_decode *d, int64_t *sum, struct dp_decode_error *error)
{
    struct dp_decode_sample sample = {.values = {0}};
    size_t type = dp_decode_type_named(d, "inuse_space");
    int err = 0;
    *sum = 0;
    for (size_t i = 0; i < d->samples.n && type < d->types.n && !err; i++)
        if (!(err = dp_decode_sample(d, i, &sample, error)))
            dp_model_merge_sum(sum, sample.values.at[type]);
    dp_decode_sample_fini(&sample);
    return err;
}

/*
 * Which file's in-use values count: those of the peak, the newest one of equal ones. So a peak is seen also if its
 * files were joined, and the memory after the process's destructors does not stand for all of its life.
 */
static int choose_state(struct dp_push_profile *p, const struct dp_push_queue *q,
                        const struct dp_push_file *const *files, size_t n_files, size_t *chosen,
                        struct dp_decode_error *error)
{
    struct dp_decode_input input = {{0}};
    struct dp_decode decode = {0};
    int64_t most = 0, sum;
    int err = 0;
    *chosen = n_files - 1;
    for (size_t i = n_files; i-- > 0 && n_files > 1 && dp_kind_has_levels(files[0]->kind) && !err;) {
        err = scan_file(p, q->dir_fd, files[i]->name, &input, &decode, error);
        err = err ? err : sum_in_use(&decode, &sum, error);
        if (!err && sum > most) {
            most = sum;
            *chosen = i;
        }
    }
    dp_decode_fini(&decode);
    dp_decode_input_fini(&input);
    return err;
}

int dp_push_profile_read(struct dp_push_profile *p, const struct dp_push_queue *q,
                         const struct dp_push_file *const *files, size_t n_files, const struct dp_push_target *target,
                         struct dp_decode_error *error)
{
    struct dp_decode_input input = {{0}};
    struct dp_decode decode = {0};
    size_t chosen;
    int err = 0;
    dp_model_merge_fini(&p->merge);
    p->merge = (struct dp_model_merge){.with_inherited = true};
    p->limits = target->limits;
    memset(p->id, 0, sizeof p->id);
    err = choose_state(p, q, files, n_files, &chosen, error);
    for (size_t i = 0; i < n_files && !err; i++) {
        struct dp_model_merge_part part = {.counts = i == chosen};
        char key[DP_PUSH_KEY_BYTES];
        dp_push_journal_key(key, files[i]->stamp, files[i]->name);
        add_to_id(p->id, key);
        err = scan_file(p, q->dir_fd, files[i]->name, &input, &decode, error);
        if (!err)
            err = dp_model_merge_add(&p->merge, &decode, &part, 1, error);
    }
    dp_decode_fini(&decode);
    dp_decode_input_fini(&input);
    if (n_files > 1)
        dp_vec_clear(&p->file);
    if (!err)
        err = dp_model_merge_choose(&p->merge);
    if (!err && p->fold && dp_push_fold_rows(p->fold, &p->merge.model))
        dp_vec_clear(&p->file); /* is not sent as it is */
    if (!err && (target->protocol == DP_PUSH_PARCA || target->protocol == DP_PUSH_PYROSCOPE))
        add_period_type(p);
    return err ? err : add_parts(p, target->protocol == DP_PUSH_PARCA);
}

void dp_push_profile_fini(struct dp_push_profile *p)
{
    dp_model_merge_fini(&p->merge);
    dp_vec_fini(&p->rows);
    dp_vec_fini(&p->parts);
    dp_vec_fini(&p->file);
}

/* ---- output ----------------------------------------------------------------------------------------------------- */

bool dp_push_profile_window(const struct dp_push_profile *p, int64_t now_ns, int64_t *start_ns, int64_t *duration_ns)
{
    int64_t start = p->merge.header.time_ns, duration = p->merge.header.duration_ns;
    *start_ns = start;
    *duration_ns = duration;
    if (!start || !now_ns)
        return false;
    if (p->limits.newest_ns && start > now_ns + p->limits.newest_ns) {
        *start_ns = now_ns; /* a clock that ran ahead */
        return true;
    }
    if (!p->limits.oldest_ns || start >= now_ns - p->limits.oldest_ns)
        return false;
    *start_ns = now_ns - p->limits.oldest_ns;
    if (duration > *start_ns - start)
        *duration_ns = duration - (*start_ns - start); /* the end stays */
    return true;
}

static int add_comment(struct dp_push_profile *p, struct dp_model_header *header)
{
    char text[160], time_text[32];
    time_t start = (time_t)(p->merge.header.time_ns / 1000000000);
    struct tm tm;
    strftime(time_text, sizeof time_text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&start, &tm));
    int n = snprintf(text, sizeof text, "began at %s, lasted %.3f s: the receiver takes no such time", time_text,
                     (double)p->merge.header.duration_ns / 1e9);
    uint32_t string = dp_strings_add(&p->merge.model.strings, text, (size_t)n);
    if (string == DP_STRINGS_NONE || !dp_vec_room(&p->merge.header.comments, 1))
        return -ENOMEM;
    header->comments.at = p->merge.header.comments.at;
    header->comments.cap = p->merge.header.comments.cap;
    header->comments.at[header->comments.n++] = string; /* the merge's own number of comments stays */
    return 0;
}

int dp_push_profile_write(struct dp_push_profile *p, size_t part, int64_t now_ns, struct dp_push_bytes *to)
{
    struct dp_model_header header = header_of(p, &p->parts.at[part], now_ns);
    int64_t start_ns, duration_ns;
    bool is_cut = dp_push_profile_window(p, now_ns, &start_ns, &duration_ns);
    if (p->file.n && p->parts.n == 1 && !is_cut)
        return dp_push_bytes_append(to, p->file.at, p->file.n);
    int err = is_cut ? add_comment(p, &header) : 0;
    struct dp_gzip *gzip = err ? NULL : dp_gzip_new(dp_push_bytes_append, to);
    if (!gzip)
        return err ? err : -ENOMEM;
    err = write_part(p, &p->parts.at[part], &header, dp_gzip_write, gzip);
    if (!err)
        err = dp_gzip_finish(gzip);
    dp_gzip_free(gzip);
    return err;
}
