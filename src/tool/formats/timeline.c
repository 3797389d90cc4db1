/* SPDX-License-Identifier: MIT */
/* tool/formats/timeline.c - reads events out of profiles. One model holds the stacks and labels of all files. */
#include "tool/formats/timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct adding {
    struct dp_formats_timeline *timeline;
    uint32_t process;
    int column[DP_KIND_EVENT_TYPES]; /* in the profile; -1: it has none */
};

/* The process's number; UINT32_MAX: no memory. */
static uint32_t process_of(struct dp_formats_timeline *t, const struct dp_formats_timeline_process *process)
{
    for (size_t i = 0; i < t->processes.n; i++)
        if (t->processes.at[i].pid == process->pid && !strcmp(t->processes.at[i].name, process->name))
            return (uint32_t)i;
    struct dp_formats_timeline_process *added = dp_vec_push(&t->processes);
    if (!added)
        return UINT32_MAX;
    *added = *process;
    return (uint32_t)t->processes.n - 1;
}

/* A process has few threads at a time, and an event is most often of the thread that was added last. */
static uint32_t thread_of(struct dp_formats_timeline *t, uint32_t process, int64_t tid)
{
    for (size_t i = t->threads.n; i-- > 0;)
        if (t->threads.at[i].tid == tid && t->threads.at[i].process == process)
            return (uint32_t)i;
    struct dp_formats_timeline_thread *added = dp_vec_push(&t->threads);
    if (!added)
        return UINT32_MAX;
    *added = (struct dp_formats_timeline_thread){.process = process, .tid = tid};
    return (uint32_t)t->threads.n - 1;
}

static const struct dp_model_label *label_of(const struct dp_model *m, uint32_t row, const char *key)
{
    for (uint32_t i = 0; i < dp_model_n_labels(m, row); i++) {
        const struct dp_model_label *label = &m->labels.at[dp_model_labels(m, row)[i]];
        if (!strcmp(dp_model_text(m, label->key), key))
            return label;
    }
    return NULL;
}

const char *dp_formats_timeline_label(const struct dp_formats_timeline *t, const struct dp_formats_timeline_event *e,
                                      const char *key)
{
    const struct dp_model_label *label = label_of(&t->model, e->row, key);
    return label && label->str ? dp_model_text(&t->model, label->str) : NULL;
}

static int64_t number_of(const struct dp_model *m, uint32_t row, const char *key)
{
    const struct dp_model_label *label = label_of(m, row, key);
    return !label ? 0 : label->str ? strtoll(dp_model_text(m, label->str), NULL, 10) : label->num;
}

static int add_event(void *ctx, uint32_t row, const int64_t *values)
{
    struct adding *adding = ctx;
    struct dp_formats_timeline *t = adding->timeline;
    const struct dp_model *m = &t->model;
    struct dp_formats_timeline_event e = {.end_ns = number_of(m, row, "end_timestamp_ns"), .row = row};
    const struct dp_model_label *duration = label_of(m, row, "duration"), *name = label_of(m, row, "thread");
    bool any = false;
    for (size_t i = 0; i < DP_KIND_EVENT_TYPES; i++) {
        e.values[i] = adding->column[i] < 0 ? 0 : values[adding->column[i]];
        any |= e.values[i] != 0;
    }
    if (e.end_ns <= 0 || !any) {
        t->n_untimed += e.end_ns <= 0;
        return 0;
    }
    if (dp_formats_timeline_is_wait(&e))
        e.duration_ns = duration ? duration->num : e.values[DP_KIND_EVENT_DELAY];
    else if (dp_formats_timeline_is_state(&e))
        e.duration_ns = duration ? duration->num : e.values[DP_KIND_EVENT_WALL];
    if (e.duration_ns < 0 || e.duration_ns > e.end_ns)
        e.duration_ns = 0;
    e.thread = thread_of(t, adding->process, number_of(m, row, "thread id"));
    struct dp_formats_timeline_event *added = e.thread == UINT32_MAX ? NULL : dp_vec_push(&t->events);
    if (!added)
        return -ENOMEM;
    *added = e;
    t->threads.at[e.thread].has_states |= dp_formats_timeline_is_state(&e);
    if (name && name->str)
        t->threads.at[e.thread].name = name->str;
    return 0;
}

static int column_of(const struct dp_decode *d, const char *type)
{
    size_t column = dp_decode_type_named(d, type);
    return column < d->types.n ? (int)column : -1;
}

int dp_formats_timeline_add(struct dp_formats_timeline *t, const struct dp_decode *d,
                            const struct dp_formats_timeline_process *process, struct dp_decode_error *error)
{
    struct adding adding = {.timeline = t, .process = process_of(t, process)};
    if (adding.process == UINT32_MAX)
        return -ENOMEM;
    for (size_t i = 0; i < DP_KIND_EVENT_TYPES; i++)
        adding.column[i] = column_of(d, dp_kind_table[DP_KIND_EVENTS].types[i].name);
    t->frames.model = &t->model;
    return dp_model_add(&t->model, d, add_event, &adding, error);
}

int dp_formats_timeline_add_level(struct dp_formats_timeline *t, const struct dp_decode *d,
                                  const struct dp_formats_timeline_process *process, struct dp_decode_error *error)
{
    int column = column_of(d, "inuse_space"), err = 0;
    struct dp_decode_sample sample = {0};
    int64_t sum = 0;
    if (column < 0)
        return 0;
    for (size_t i = 0; i < d->samples.n && !err; i++) {
        err = dp_decode_sample(d, i, &sample, error);
        if (!err)
            sum += sample.values.at[column];
    }
    dp_decode_sample_fini(&sample);
    struct dp_formats_timeline_level *level = err ? NULL : dp_vec_push(&t->levels);
    if (!level)
        return err ? err : -ENOMEM;
    *level = (struct dp_formats_timeline_level){process_of(t, process), d->time_ns + d->duration_ns, sum};
    return level->process == UINT32_MAX ? -ENOMEM : 0;
}

static int by_end(const void *a, const void *b)
{
    const struct dp_formats_timeline_event *x = a, *y = b;
    return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

static int by_time(const void *a, const void *b)
{
    const struct dp_formats_timeline_level *x = a, *y = b;
    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

void dp_formats_timeline_sort(struct dp_formats_timeline *t)
{
    if (t->events.n)
        qsort(t->events.at, t->events.n, sizeof *t->events.at, by_end);
    if (t->levels.n)
        qsort(t->levels.at, t->levels.n, sizeof *t->levels.at, by_time);
    t->begin_ns = t->levels.n ? t->levels.at[0].time_ns : INT64_MAX;
    for (size_t i = 0; i < t->events.n; i++)
        if (t->events.at[i].end_ns - t->events.at[i].duration_ns < t->begin_ns)
            t->begin_ns = t->events.at[i].end_ns - t->events.at[i].duration_ns;
}

void dp_formats_timeline_fini(struct dp_formats_timeline *t)
{
    dp_query_naming_frames_fini(&t->frames);
    dp_model_fini(&t->model);
    dp_vec_fini(&t->events);
    dp_vec_fini(&t->threads);
    dp_vec_fini(&t->processes);
    dp_vec_fini(&t->levels);
}
