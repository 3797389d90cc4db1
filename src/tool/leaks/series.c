/* SPDX-License-Identifier: MIT */
/*
 * tool/leaks/series.c - reads the files of a process in order, and keeps for each stack a curve of at most
 * DP_QUERY_POINTS points, one for each tick. When all points are used, half of them are joined with their neighbours:
 * in-use values are then those of the newer one; allocations are summed. Points with the least work are joined first,
 * so that an hour of idle time after a minute of load leaves the points of the load alone.
 *
 * A tick may have two files: the first has what was in use at a peak since the last tick, and the allocations since
 * then; the second what is in use now. They are one point, with the in-use values of now: those of a peak would be
 * higher than the points around it.
 *
 * The number of samples is computed from a value: a block of s bytes is sampled with probability 1 - exp(-s / rate),
 * and has the inverse of that as its weight.
 */
#include "tool/leaks/series.h"

#include "tool/query/print.h"
#include "tool/leaks/points.h"
#include "tool/leaks/teardown.h"
#include "profile/comments.h"
#include "profile/kinds.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NO_STACK UINT32_MAX

/* How many of a process's last files are searched for the one of before its destructors. */
enum { END_FILES_MAX = 64 };

/* Positions of sample types in a heap profile; -1: there is none. */
struct types {
    int inuse_objects, inuse_space, alloc_objects, alloc_space;
};

struct reading {
    struct dp_leaks_series *series;
    struct types types;
    size_t point;
    bool is_peak;  /* the first file of a tick: its in-use values do not count */
    bool is_end;   /* of the process */
    bool is_after; /* its destructors had begun */
};

static int type_named(const struct dp_model *m, const char *name)
{
    size_t type = dp_model_type_named(m, name);
    return type < m->types.n ? (int)type : -1;
}

/* The number of the first frame of v->stack that is the user's own code; v->stack.n: none is. */
static size_t find_own_frame(const struct dp_query *v)
{
    const struct dp_query_naming_frame *frames = v->frames.at.at;
    for (size_t i = 0; i < v->stack.n; i++) /* in a program of a runtime, users know the runtime's functions */
        if (frames[v->stack.at[i]].is_runtime && !frames[v->stack.at[i]].is_foreign)
            return i;
    for (size_t i = 0; i < v->stack.n; i++)
        if (!frames[v->stack.at[i]].is_foreign && !frames[v->stack.at[i]].is_interpreter)
            return i;
    return v->stack.n;
}

size_t dp_leaks_shown_frame(const struct dp_query *v)
{
    size_t own = find_own_frame(v);
    if (own < v->stack.n)
        return own;
    for (size_t i = 0; i < v->stack.n; i++)
        if (v->frames.at.at[v->stack.at[i]].is_runtime)
            return i;
    return 0;
}

static double samples_of(int64_t objects, int64_t bytes, int64_t rate)
{
    if (objects <= 0 || rate <= 1)
        return objects > 0 ? (double)objects : 0;
    double size = bytes > 0 ? (double)bytes / (double)objects : 1;
    return (double)objects * -expm1(-size / (double)rate);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static int room_for_rows(struct dp_leaks_series *s)
{
    size_t n = s->view->merge.model.rows.n;
    if (s->stack_of.n >= n)
        return 0;
    size_t n_more = n - s->stack_of.n;
    uint32_t *stacks = dp_vec_room(&s->stack_of, n_more), *own = dp_vec_room(&s->own_of, n_more);
    if (!stacks || !own)
        return -ENOMEM;
    memset(stacks, 0, n_more * sizeof *stacks);
    memset(own, 0, n_more * sizeof *own);
    s->stack_of.n = s->own_of.n = n;
    return 0;
}

/* The stack of a row into *stack, NO_STACK if it is not shown. */
static int find_stack(struct dp_leaks_series *s, uint32_t row, uint32_t *stack)
{
    struct dp_query *v = s->view;
    if (room_for_rows(s))
        return -ENOMEM;
    uint32_t *known = &s->stack_of.at[row];
    if (!*known) {
        bool is_skipped = !v->merge.with_inherited && dp_model_merge_is_inherited(&v->merge.model, row);
        int shown = is_skipped ? 0 : dp_query_row(v, row);
        if (shown < 0)
            return shown;
        *known = NO_STACK;
        if (shown) {
            size_t own = s->from_own ? find_own_frame(v) : 0;
            uint32_t number = dp_query_stacks_add(&s->stacks, v, own < v->stack.n ? own : 0);
            if (number == DP_STRINGS_NONE)
                return -ENOMEM;
            *known = number + 1;
            s->own_of.at[row] = own < v->stack.n ? (uint32_t)own : DP_QUERY_NO_OWN;
        }
    }
    *stack = *known == NO_STACK ? NO_STACK : *known - 1;
    return 0;
}

static struct dp_leaks_curve *curve_of(struct dp_leaks_series *s, uint32_t stack, uint32_t row, int64_t value)
{
    if (s->curve_of.n <= stack) {
        size_t n_more = stack + 64 - s->curve_of.n;
        uint32_t *fresh = dp_vec_room(&s->curve_of, n_more);
        if (!fresh)
            return NULL;
        memset(fresh, 0, n_more * sizeof *fresh);
        s->curve_of.n += n_more;
    }
    uint32_t *known = &s->curve_of.at[stack];
    if (!*known) {
        struct dp_leaks_curve *fresh = dp_vec_push(&s->curves);
        if (!fresh)
            return NULL;
        *fresh = (struct dp_leaks_curve){.stack = stack, .process = (uint32_t)s->processes.n - 1, .row_value = -1};
        *known = (uint32_t)s->curves.n;
    }
    struct dp_leaks_curve *curve = &s->curves.at[*known - 1];
    if (value > curve->row_value) {
        curve->row = row;
        curve->row_value = value;
        curve->n_own = s->own_of.at[row];
    }
    return curve;
}

static int64_t value_of(const int64_t *values, int type)
{
    return type < 0 || values[type] < 0 ? 0 : values[type];
}

static int take_row(void *ctx, uint32_t row, const int64_t *values)
{
    struct reading *r = ctx;
    struct dp_leaks_series *s = r->series;
    struct dp_leaks_process *process = &s->processes.at[s->processes.n - 1];
    uint32_t stack;
    int err = find_stack(s, row, &stack);
    if (err || stack == NO_STACK)
        return err;
    int64_t bytes = value_of(values, r->types.inuse_space), allocated = value_of(values, r->types.alloc_space);
    struct dp_leaks_curve *curve = curve_of(s, stack, row, bytes);
    if (!curve)
        return -ENOMEM;
    double samples = samples_of(value_of(values, r->types.inuse_objects), bytes, process->rate);
    if (r->is_end) {
        curve->end_bytes += r->is_after ? 0 : (double)bytes;
        return 0;
    }
    int64_t n_allocated = value_of(values, r->types.alloc_objects);
    double allocated_samples = samples_of(n_allocated, allocated, process->rate);
    curve->allocated_objects[r->point] += (double)n_allocated;
    curve->allocated_samples[r->point] += allocated_samples;
    process->work[r->point] += allocated_samples;
    if (!r->is_peak) {
        curve->bytes[r->point] += (double)bytes;
        curve->samples[r->point] += samples;
    }
    return 0;
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

/* Rows are taken once their profile is in the model: the stack of a row is looked up in it. */
struct later {
    DP_VEC(uint32_t) rows;
    DP_VEC(int64_t) values;
    size_t n_types;
};

static int keep_row(void *ctx, uint32_t row, const int64_t *values)
{
    struct later *later = ctx;
    uint32_t *to = dp_vec_push(&later->rows);
    int64_t *to_values = dp_vec_room(&later->values, later->n_types);
    if (!to || !to_values)
        return -ENOMEM;
    *to = row;
    memcpy(to_values, values, later->n_types * sizeof *values);
    later->values.n += later->n_types;
    return 0;
}

static int add_profile(struct reading *r, const struct dp_query_file *name, const struct dp_decode *d,
                       struct dp_decode_error *error)
{
    struct dp_model *m = &r->series->view->merge.model;
    struct later later = {.n_types = d->types.n};
    int err = dp_query_set_process(r->series->view, name->file, name->pid_stamp);
    err = err ? err : dp_model_add(m, d, keep_row, &later, error);
    r->types = (struct types){type_named(m, "inuse_objects"), type_named(m, "inuse_space"),
                              type_named(m, "alloc_objects"), type_named(m, "alloc_space")};
    r->series->has_inuse = r->types.inuse_space >= 0;
    for (size_t i = 0; i < later.rows.n && !err; i++)
        err = take_row(r, later.rows.at[i], &later.values.at[i * later.n_types]);
    dp_vec_fini(&later.rows);
    dp_vec_fini(&later.values);
    if (err == -ENOMEM)
        dp_decode_fail(error, "out of memory");
    return err;
}

/*
 * Finds the files, of names[0..n), the newest first, that were written when the process ended: one before its handlers
 * and destructors ran, others from then on, or both. The newest is in `newest` afterwards.
 */
static int read_end(struct dp_query *v, const struct dp_query_file *names, size_t n, struct dp_query_source *newest,
                    struct dp_query_source *source, struct dp_leaks_process *process)
{
    int status = dp_query_read_file(v->verb, names[0].file, v->limit_bytes, newest);
    if (status)
        return status;
    bool is_exit = dp_model_merge_says(&newest->decode, DP_COMMENT_EXIT);
    process->ended = is_exit || dp_model_merge_says(&newest->decode, DP_COMMENT_ENDED);
    process->was_killed = dp_model_merge_was_killed(&newest->decode);
    process->at_exit = is_exit && !process->was_killed;
    for (size_t i = 1; !is_exit && !process->was_killed && process->ended && i < n && i < END_FILES_MAX && !status;
         i++) {
        status = dp_query_read_file(v->verb, names[i].file, v->limit_bytes, source);
        if (!status && dp_model_merge_says(&source->decode, DP_COMMENT_EXIT)) {
            process->n_after = (uint32_t)i;
            process->at_exit = true;
            break;
        }
    }
    return status;
}

/* The CPU time in the cpu profile of the same tick as a heap profile, in ns; 0: there is none that can be read. */
static double cpu_beside(const struct dp_query *v, const struct dp_query_file *heap, struct dp_query_source *source)
{
    struct dp_decode_sample sample = {.values = {0}};
    struct dp_decode_error error;
    const struct dp_decode *d = &source->decode;
    bool was_quiet = source->is_quiet;
    double sum_ns = 0;
    char *path = NULL;
    if (!heap->n_kind || asprintf(&path, "%.*s%s%s", (int)(heap->kind - heap->file), heap->file,
                                  dp_kind_table[DP_KIND_CPU].name, heap->kind + heap->n_kind) < 0)
        return 0;
    source->is_quiet = true;
    if (!access(path, R_OK) && !dp_query_read_file(v->verb, path, v->limit_bytes, source)) {
        for (size_t i = 0; d->types.n && i < d->samples.n && !dp_decode_sample(d, i, &sample, &error); i++)
            sum_ns += (double)sample.values.at[d->types.n - 1]; /* the second type is cpu/nanoseconds */
    }
    source->is_quiet = was_quiet;
    dp_decode_sample_fini(&sample);
    free(path);
    return sum_ns;
}

/* The files names[0..n) of one process, the newest first. */
static int read_process(struct dp_leaks_series *s, const struct dp_query_file *names, size_t n)
{
    struct dp_query *v = s->view;
    struct dp_query_source source = {.is_quiet = dp_query_may_skip(v)}, newest = {.is_quiet = source.is_quiet};
    struct dp_leaks_process *process = dp_vec_push(&s->processes);
    struct reading r = {.series = s};
    int status = process ? 0 : DP_EXIT_FAILED;
    if (!process)
        dp_query_print_error(v->verb, "out of memory");
    else
        *process = (struct dp_leaks_process){.rate = 1, .first_curve = s->curves.n};
    dp_vec_clear(&s->curve_of);
    if (!status)
        status = read_end(v, names, n, &newest, &source, process);
    size_t n_ticks = status ? n : n - (process->ended && !process->was_killed) - process->n_after;
    for (size_t i = 0; i < n && !status; i++) { /* the oldest first */
        const char *path = names[n - 1 - i].file;
        struct dp_decode_error error;
        bool is_read = i + 1 == n; /* by read_end */
        status = is_read ? 0 : dp_query_read_file(v->verb, path, v->limit_bytes, &source);
        if (status)
            break;
        const struct dp_decode *d = is_read ? &newest.decode : &source.decode;
        r.is_end = i >= n_ticks;
        r.is_after = i > n_ticks;
        if (!i) {
            process->start_ns = d->time_ns;
            process->rate = d->period > 0 ? d->period : 1;
        }
        if (r.is_end) {
            process->life_ns = d->time_ns + d->duration_ns - process->start_ns;
        } else {
            bool is_second = r.is_peak;
            r.is_peak = dp_model_merge_number(d, DP_COMMENT_PEAK_AT, 0) != 0;
            if (process->n_points == DP_QUERY_POINTS && !is_second)
                dp_leaks_points_join(s, process);
            process->n_points += !is_second;
            process->n_ticks += !is_second;
            r.point = process->n_points - 1;
            process->times_ns[r.point] = d->time_ns + d->duration_ns;
        }
        int err = add_profile(&r, &names[n - 1 - i], d, &error);
        if (!err && !r.is_end)
            process->cpu_ns[r.point] += cpu_beside(v, &names[n - 1 - i], &source);
        if (err)
            status = err != -ENOMEM && source.is_quiet ? DP_QUERY_BROKEN : dp_query_refuse(v->verb, path, err, &error);
    }
    if (!status) {
        process->n_points -= r.is_peak; /* the second file of its tick is that of the end, or was not written */
        process->n_ticks -= r.is_peak;
        dp_leaks_teardown_skip_all(s, process);
    }
    dp_query_source_fini(&source);
    dp_query_source_fini(&newest);
    return status;
}

static void name_process(struct dp_leaks_process *process, const struct dp_query_file *name)
{
    char pid[DP_QUERY_PID_BYTES];
    dp_query_file_print_pid(name, pid);
    snprintf(process->name, sizeof process->name, "%.*s %.16s", name->n_program < 40 ? (int)name->n_program : 40,
             name->program, pid);
}

static int read_processes(struct dp_leaks_series *s)
{
    struct dp_query *v = s->view;
    struct dp_query_file *names = calloc(v->paths.n + 1, sizeof *names);
    size_t n_names = 0;
    int status = 0;
    dp_query_set_naming(v);
    if (!names) {
        dp_query_print_error(v->verb, "out of memory");
        return DP_EXIT_FAILED;
    }
    n_names = dp_query_files_sort(v->paths.at, v->paths.n, names);
    if (!n_names) { /* files of other names, of one process, in the order that was given */
        for (size_t i = 0; i < v->paths.n; i++)
            names[i] = (struct dp_query_file){.file = v->paths.at[v->paths.n - 1 - i],
                                              .kind = dp_kind_table[DP_KIND_HEAP].name};
    }
    for (size_t i = 0, n, n_all = n_names ? n_names : v->paths.n; i < n_all && !status; i += n) {
        n = 1;
        while (i + n < n_all && (!n_names || dp_query_file_is_same(&names[i], &names[i + n])))
            n++;
        dp_query_print_progress(v->verb, i, n_all);
        status = read_process(s, &names[i], n);
        if (!status && n_names)
            name_process(&s->processes.at[s->processes.n - 1], &names[i]);
    }
    dp_query_print_progress(v->verb, 1, 1);
    free(names);
    return status;
}

int dp_leaks_series_read(struct dp_leaks_series *s)
{
    struct dp_query *v = s->view;
    int status = read_processes(s);
    while (status == DP_QUERY_BROKEN) {
        struct dp_leaks_series again = {.view = v, .from_own = s->from_own};
        dp_leaks_series_fini(s);
        *s = again;
        status = dp_query_restart(v);
        if (!status)
            status = read_processes(s);
    }
    return status;
}

bool dp_leaks_series_is_sister(const struct dp_leaks_series *s, uint32_t stack, uint32_t other)
{
    char name[512], other_name[512];
    const char *at = NULL, *other_at = NULL;
    return dp_query_stacks_next(&s->stacks, stack, &at, name, sizeof name) &&
           dp_query_stacks_next(&s->stacks, other, &other_at, other_name, sizeof other_name) &&
           !strcmp(name, other_name);
}

void dp_leaks_series_fini(struct dp_leaks_series *s)
{
    dp_query_stacks_fini(&s->stacks);
    dp_vec_fini(&s->processes);
    dp_vec_fini(&s->curves);
    dp_vec_fini(&s->curve_of);
    dp_vec_fini(&s->stack_of);
    dp_vec_fini(&s->own_of);
}
