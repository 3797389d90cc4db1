/* SPDX-License-Identifier: MIT */
/*
 * tool/query/moments.c - reads the moments of files: their times, their marks, and how much was in use.
 *
 * Files are read here once and then once more for their samples. Of processes that still run only the newest file
 * matters, so the others are not read here.
 */
#include "tool/query/moments.h"

#include "base/hash.h"
#include "pprof/stamp.h"
#include "tool/query/print.h"
#include "tool/query/query.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int out_of_memory(const struct dp_query *v)
{
    dp_query_print_error(v->verb, "out of memory");
    return DP_EXIT_FAILED;
}

/* ---- one file --------------------------------------------------------------------------------------------------- */

static bool is_inherited(const struct dp_decode *d, const struct dp_decode_sample *sample)
{
    for (size_t i = 0; i < sample->labels.n; i++)
        if (dp_decode_is_text(d, sample->labels.at[i].key, DP_MERGE_FORK) &&
            dp_decode_is_text(d, sample->labels.at[i].str, DP_MERGE_INHERITED))
            return true;
    return false;
}

/* The sums of inuse_space; 0 if there is no such type. */
static int sum_bytes(const struct dp_decode *d, struct dp_model_moment *moment, struct dp_decode_error *error)
{
    size_t type = dp_decode_type_named(d, "inuse_space");
    if (type == d->types.n)
        return 0;
    struct dp_decode_sample sample = {.values = {0}};
    int err = 0;
    for (size_t i = 0; i < d->samples.n && !err; i++) {
        err = dp_decode_sample(d, i, &sample, error);
        if (err)
            break;
        dp_model_merge_sum(&moment->bytes, sample.values.at[type]);
        if (!is_inherited(d, &sample))
            dp_model_merge_sum(&moment->own_bytes, sample.values.at[type]);
    }
    dp_decode_sample_fini(&sample);
    return err;
}

/* A merged profile without its moments says of which time its in-use values are. */
static void take_time_of_state(const struct dp_decode *d, struct dp_model_moment *moment)
{
    static const char head[] = DP_COMMENT_IN_USE_AT;
    for (size_t i = 0; i < d->comments.n; i++) {
        size_t n;
        char number[24] = "";
        const char *text = dp_decode_text(d, d->comments.at[i], &n);
        if (n < sizeof head || memcmp(text, head, sizeof head - 1))
            continue;
        memcpy(number, text + sizeof head - 1, n - sizeof head + 1 < sizeof number ? n - sizeof head + 1 : 20);
        moment->time_ns = strtoll(number, NULL, 10);
        moment->is_exit |= moment->ended; /* its values are not those after the destructors */
    }
}

static int read_plain(const struct dp_decode *d, struct dp_query_moment *to, struct dp_decode_error *error)
{
    struct dp_model_moment *moment = &to->part.moment;
    if (__builtin_add_overflow(d->time_ns, d->duration_ns, &moment->time_ns)) /* in-use values are those at the end */
        moment->time_ns = d->time_ns;
    moment->duration_ns = d->duration_ns;
    moment->is_exit = dp_model_merge_says(d, DP_COMMENT_EXIT) || dp_model_merge_was_killed(d);
    moment->ended = dp_model_merge_says(d, DP_COMMENT_ENDED);
    take_time_of_state(d, moment);
    return sum_bytes(d, moment, error);
}

/* A file with another form of name belongs to the process of the files with the same main program. */
static uint64_t main_program(const struct dp_decode *d)
{
    size_t n = 0;
    const char *text = "";
    if (d->mappings.n)
        text = dp_decode_text(d, d->mappings.at[0].build_id ? d->mappings.at[0].build_id : d->mappings.at[0].file, &n);
    return dp_hash_bytes(text, n, 2);
}

/* The moments that are read: one for each path, and what a merged profile has beyond one. */
struct reading {
    struct dp_query_moment *one;
    DP_VEC(struct dp_query_moment) more;
    size_t *first_more; /* by path: in more */
    size_t *n_more;
};

static int take_inner(struct reading *r, size_t i, const struct dp_model_moments *inner)
{
    r->first_more[i] = r->more.n;
    for (size_t j = 0; j < inner->at.n; j++) {
        struct dp_query_moment *to = j ? dp_vec_push(&r->more) : &r->one[i];
        if (!to)
            return -ENOMEM;
        *to = (struct dp_query_moment){.part.moment = inner->at.at[j], .path = i, .is_read = true};
        r->n_more[i] += j > 0;
    }
    return 0;
}

/* v->moments.is_whole is set if the file has no in-use values at all. */
static int read_path(struct dp_query *v, size_t i, struct reading *r)
{
    struct dp_query_source own = {.is_quiet = dp_query_may_skip(v)}, *source;
    struct dp_model_moments inner = {.at = {0}};
    struct dp_decode_error error;
    int status = dp_query_open(v, i, &own, &source), err = 0;
    r->one[i].is_read = true;
    if (!status)
        v->moments.is_whole = !dp_model_moments_count_states(&source->decode);
    if (!status && !v->moments.is_whole)
        err = dp_model_moments_read(&source->decode, &inner);
    if (!status && !err && inner.at.n)
        err = take_inner(r, i, &inner);
    else if (!status && !err)
        err = read_plain(&source->decode, &r->one[i], &error);
    if (!status && !err && !r->one[i].part.moment.process)
        r->one[i].part.moment.process = main_program(&source->decode);
    if (err)
        status =
            err != -ENOMEM && own.is_quiet ? DP_QUERY_BROKEN : dp_query_refuse(v->verb, v->paths.at[i], err, &error);
    dp_query_source_fini(&own);
    dp_vec_fini(&inner.at);
    return status;
}

/* ---- processes -------------------------------------------------------------------------------------------------- */

/* Identifies the process by its stamp; without one by the directory and the beginning of the name. */
static uint64_t process_of(const struct dp_query_file *name)
{
    size_t n_directory = (size_t)(name->program - name->file), n = name->n_process - n_directory;
    if (name->stamp)
        return dp_hash_bytes(name->program, n, name->stamp) | 1;
    char directory[PATH_MAX], given[PATH_MAX];
    snprintf(given, sizeof given, "%.*s", n_directory ? (int)n_directory : 1, n_directory ? name->file : ".");
    if (!realpath(given, directory))
        strcpy(directory, given);
    return dp_hash_bytes(name->program, n, dp_hash_bytes(directory, strlen(directory), 3)) | 1;
}

/* Whether the process that wrote the file ran on this system and no longer exists: it was killed. */
static bool is_gone(const struct dp_query_file *name)
{
    struct dp_stamp stamp;
    if (dp_stamp_read(AT_FDCWD, name->file, &stamp) || !stamp.pid_scope ||
        stamp.pid_scope != dp_stamp_make(getpid()).pid_scope)
        return false;
    long pid = strtol(name->program + name->n_program + 1, NULL, 10);
    return pid > 0 && pid <= INT_MAX && kill((pid_t)pid, 0) && errno == ESRCH;
}

/* What is known of each path by its name: one moment each. */
static int take_names(struct dp_query *v, struct reading *r, struct dp_query_file *names)
{
    size_t n = v->paths.n;
    dp_vec_clear(&v->moments.is_newest);
    dp_vec_clear(&v->moments.pid_stamp);
    if (!dp_vec_room(&v->moments.is_newest, n + 1) || !dp_vec_room(&v->moments.pid_stamp, n + 1))
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        r->one[i] = (struct dp_query_moment){.path = i};
        v->moments.is_newest.at[i] = true;
        v->moments.pid_stamp.at[i] = 0;
    }
    v->moments.is_newest.n = v->moments.pid_stamp.n = n;
    size_t n_names = dp_query_files_sort(v->paths.at, n, names);
    for (size_t i = 0; i < n_names; i++) {
        struct dp_model_moment *moment = &r->one[names[i].position].part.moment;
        bool is_newest = !i || !dp_query_file_is_same(&names[i - 1], &names[i]);
        v->moments.is_newest.at[names[i].position] = is_newest;
        v->moments.pid_stamp.at[names[i].position] = names[i].pid_stamp;
        moment->seq = names[i].seq;
        moment->process = is_newest ? process_of(&names[i]) : r->one[names[i - 1].position].part.moment.process;
        moment->is_gone = is_newest && is_gone(&names[i]);
    }
    return 0;
}

static int by_process(const void *a, const void *b, void *moments)
{
    const struct dp_query_moment *at = moments, *i = &at[*(const uint32_t *)a], *j = &at[*(const uint32_t *)b];
    const struct dp_model_moment *x = &i->part.moment, *y = &j->part.moment;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return (i > j) - (i < j);
}

/* Sorts, counts the processes, and makes times of a process rise. */
static int put_in_order(struct dp_query_moments *ms)
{
    if (!dp_vec_room(&ms->order, ms->at.n + 1))
        return -ENOMEM;
    for (size_t i = 0; i < ms->at.n; i++)
        ms->order.at[i] = (uint32_t)i;
    ms->order.n = ms->at.n;
    qsort_r(ms->order.at, ms->order.n, sizeof *ms->order.at, by_process, ms->at.at);
    ms->n_processes = ms->n_ended = 0;
    for (size_t i = 0; i < ms->order.n; i++) {
        struct dp_query_moment *m = &ms->at.at[ms->order.at[i]], *before = i ? &ms->at.at[ms->order.at[i - 1]] : NULL;
        struct dp_query_moment *after = i + 1 < ms->order.n ? &ms->at.at[ms->order.at[i + 1]] : NULL;
        bool is_first = !before || before->part.moment.process != m->part.moment.process;
        m->time_ns = m->part.moment.time_ns;
        if (!is_first && before->time_ns > m->time_ns)
            m->time_ns = before->time_ns;
        m->is_last = !after || after->part.moment.process != m->part.moment.process;
        ms->n_processes += is_first;
        ms->n_ended += m->is_last && dp_query_moment_ended(m);
    }
    return 0;
}

/* Reads the paths whose is_newest is this. */
static int read_paths(struct dp_query *v, struct reading *r, bool is_newest)
{
    int status = 0;
    for (size_t i = 0; i < v->paths.n && !status && !v->moments.is_whole; i++)
        if (v->moments.is_newest.at[i] == is_newest) {
            dp_query_print_progress(v->verb, i, v->paths.n);
            status = read_path(v, i, r);
        }
    dp_query_print_progress(v->verb, 1, 1);
    return status;
}

/* Puts the moments of all paths one behind the other. */
static int join(struct dp_query *v, const struct reading *r)
{
    struct dp_query_moments *ms = &v->moments;
    dp_vec_clear(&ms->at);
    dp_vec_clear(&ms->first);
    if (!dp_vec_room(&ms->first, v->paths.n + 1) || !dp_vec_room(&ms->at, v->paths.n + r->more.n + 1))
        return -ENOMEM;
    for (size_t i = 0; i < v->paths.n; i++) {
        ms->first.at[ms->first.n++] = ms->at.n;
        ms->at.at[ms->at.n++] = r->one[i];
        for (size_t j = 0; j < r->n_more[i]; j++)
            ms->at.at[ms->at.n++] = r->more.at[r->first_more[i] + j];
    }
    ms->first.at[ms->first.n++] = ms->at.n;
    return put_in_order(ms);
}

int dp_query_moments_read(struct dp_query *v, bool newest_first)
{
    size_t n = v->paths.n + 1;
    struct dp_query_file *names = calloc(n, sizeof *names);
    struct reading r = {.one = calloc(n, sizeof *r.one),
                        .first_more = calloc(n, sizeof *r.first_more),
                        .n_more = calloc(n, sizeof *r.n_more)};
    int status = 0;
    if (!names || !r.one || !r.first_more || !r.n_more || take_names(v, &r, names))
        status = out_of_memory(v);
    if (!status)
        status = read_paths(v, &r, true);
    if (!status && join(v, &r))
        status = out_of_memory(v);
    if (!status && (!newest_first || v->moments.n_ended == v->moments.n_processes)) {
        status = read_paths(v, &r, false);
        if (!status && join(v, &r))
            status = out_of_memory(v);
    }
    dp_vec_fini(&r.more);
    free(r.n_more);
    free(r.first_more);
    free(r.one);
    free(names);
    return status;
}

void dp_query_moments_fini(struct dp_query_moments *ms)
{
    dp_vec_fini(&ms->at);
    dp_vec_fini(&ms->first);
    dp_vec_fini(&ms->is_newest);
    dp_vec_fini(&ms->pid_stamp);
    dp_vec_fini(&ms->order);
    *ms = (struct dp_query_moments){.at = {0}};
}
