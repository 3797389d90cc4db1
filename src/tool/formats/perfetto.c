/* SPDX-License-Identifier: MIT */
/*
 * tool/formats/perfetto.c - writes a Perfetto trace: the packets of tracks and events.
 *
 * Source: perfetto.dev/docs/reference/trace-packet-proto, of which the fields below are numbered as there. A wait is a
 * slice on its thread's track; an allocation and an unlock are instants there. Time off the processor is a slice on a
 * track below, whose name is the state: Perfetto chooses the colour by the name. Each carries its values, labels and
 * stack as debug annotations (`debug.delay` and so on in SQL), so that sums equal those of the profile. Slices of a
 * thread overlap only in a signal handler, and then they nest.
 *
 * Times are Unix times; a clock snapshot in the trace declares that.
 */
#include "tool/formats/perfetto_packets.h"
#include "tool/formats/timeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum packet { CLOCK_SNAPSHOT = 6, TIMESTAMP = 8, TRACK_EVENT = 11, SEQUENCE_FLAGS = 13, TRACK_DESCRIPTOR = 60 };
enum track { TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_THREAD = 4, TRACK_PARENT = 5, TRACK_COUNTER = 8 };
enum event {
    EVENT_CATEGORIES = 22,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK = 11,
    EVENT_ANNOTATION = 4,
    EVENT_COUNTER = 30
};
enum annotation { ANNOTATION_NAME_IID = 1, ANNOTATION_INT = 4, ANNOTATION_STRING_IID = 17 };
enum type { SLICE_BEGIN = 1, SLICE_END = 2, INSTANT = 3, COUNTER = 4 };
enum clock { CLOCK_REALTIME_ID = 1, CLOCK_BOOTTIME_ID = 6 };
enum { STATE_CLEARED = 1, NEEDS_STATE = 2, UNIT_BYTES = 3 };

struct trace {
    struct dp_formats_timeline *timeline;
    struct dp_formats_timeline_packets packets;
    DP_VEC(char) text;
};

/* ---- packets ---- */

static void write_clocks(struct trace *t)
{
    static const unsigned clocks[] = {CLOCK_BOOTTIME_ID, CLOCK_REALTIME_ID};
    for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        dp_formats_timeline_put_number(&t->packets.innermost, 1, clocks[i]);
        dp_formats_timeline_put_number(&t->packets.innermost, 2, (uint64_t)t->timeline->begin_ns);
        dp_formats_timeline_put_message(&t->packets.inner, 1, &t->packets.innermost);
    }
    dp_formats_timeline_put_message(&t->packets.packet, CLOCK_SNAPSHOT, &t->packets.inner);
    dp_formats_timeline_put_number(&t->packets.packet, SEQUENCE_FLAGS, STATE_CLEARED);
    dp_formats_timeline_packets_write(&t->packets);
}

/* Tracks: a process's, two counters', one a thread, and one a thread for its states. */
enum { PER_PROCESS = 3 };

static uint64_t process_track(size_t process, unsigned which)
{
    return 1 + process * PER_PROCESS + which;
}

static uint64_t thread_track(const struct dp_formats_timeline *timeline, size_t thread)
{
    return 1 + timeline->processes.n * PER_PROCESS + thread;
}

static uint64_t state_track(const struct dp_formats_timeline *timeline, size_t thread)
{
    return thread_track(timeline, timeline->threads.n + thread);
}

static uint64_t track_of(const struct dp_formats_timeline *timeline, const struct dp_formats_timeline_event *e)
{
    return dp_formats_timeline_is_state(e) ? state_track(timeline, e->thread) : thread_track(timeline, e->thread);
}

static void write_process(struct trace *t, size_t i)
{
    static const char *const counters[] = {"allocated (bytes)", "in use (bytes)"};
    const struct dp_formats_timeline_process *p = &t->timeline->processes.at[i];
    dp_formats_timeline_put_number(&t->packets.inner, TRACK_UUID, process_track(i, 0));
    dp_formats_timeline_put_number(&t->packets.innermost, 1, (uint64_t)p->pid);
    dp_formats_timeline_put_text(&t->packets.innermost, 6, p->name);
    dp_formats_timeline_put_message(&t->packets.inner, TRACK_PROCESS, &t->packets.innermost);
    dp_formats_timeline_put_message(&t->packets.packet, TRACK_DESCRIPTOR, &t->packets.inner);
    dp_formats_timeline_packets_write(&t->packets);
    for (unsigned which = 1; which < PER_PROCESS; which++) {
        dp_formats_timeline_put_number(&t->packets.inner, TRACK_UUID, process_track(i, which));
        dp_formats_timeline_put_number(&t->packets.inner, TRACK_PARENT, process_track(i, 0));
        dp_formats_timeline_put_text(&t->packets.inner, TRACK_NAME, counters[which - 1]);
        dp_formats_timeline_put_number(&t->packets.innermost, 3, UNIT_BYTES);
        dp_formats_timeline_put_message(&t->packets.inner, TRACK_COUNTER, &t->packets.innermost);
        dp_formats_timeline_put_message(&t->packets.packet, TRACK_DESCRIPTOR, &t->packets.inner);
        dp_formats_timeline_packets_write(&t->packets);
    }
}

static void write_thread(struct trace *t, size_t i)
{
    const struct dp_formats_timeline_thread *thread = &t->timeline->threads.at[i];
    const struct dp_formats_timeline_process *p = &t->timeline->processes.at[thread->process];
    dp_formats_timeline_put_number(&t->packets.inner, TRACK_UUID, thread_track(t->timeline, i));
    dp_formats_timeline_put_number(&t->packets.innermost, 1, (uint64_t)p->pid);
    dp_formats_timeline_put_number(&t->packets.innermost, 2, (uint64_t)thread->tid);
    dp_formats_timeline_put_text(&t->packets.innermost, 5,
                                 thread->name            ? dp_model_text(&t->timeline->model, thread->name)
                                 : thread->tid == p->pid ? p->name
                                                         : "thread");
    dp_formats_timeline_put_message(&t->packets.inner, TRACK_THREAD, &t->packets.innermost);
    dp_formats_timeline_put_message(&t->packets.packet, TRACK_DESCRIPTOR, &t->packets.inner);
    dp_formats_timeline_packets_write(&t->packets);
}

static void write_states(struct trace *t, size_t i)
{
    if (!t->timeline->threads.at[i].has_states)
        return;
    dp_formats_timeline_put_number(&t->packets.inner, TRACK_UUID, state_track(t->timeline, i));
    dp_formats_timeline_put_number(&t->packets.inner, TRACK_PARENT, thread_track(t->timeline, i));
    dp_formats_timeline_put_text(&t->packets.inner, TRACK_NAME, "off the processor");
    dp_formats_timeline_put_message(&t->packets.packet, TRACK_DESCRIPTOR, &t->packets.inner);
    dp_formats_timeline_packets_write(&t->packets);
}

static void write_counter(struct trace *t, uint64_t track, int64_t time_ns, int64_t value)
{
    dp_formats_timeline_put_number(&t->packets.packet, TIMESTAMP, (uint64_t)time_ns);
    dp_formats_timeline_put_number(&t->packets.inner, EVENT_TYPE, COUNTER);
    dp_formats_timeline_put_number(&t->packets.inner, EVENT_TRACK, track);
    dp_formats_timeline_put_number(&t->packets.inner, EVENT_COUNTER, (uint64_t)value);
    dp_formats_timeline_put_message(&t->packets.packet, TRACK_EVENT, &t->packets.inner);
    dp_formats_timeline_packets_write(&t->packets);
}

/* ---- events ---- */

static void annotate_number(struct trace *t, const char *name, int64_t value)
{
    dp_formats_timeline_put_number(&t->packets.innermost, ANNOTATION_NAME_IID,
                                   dp_formats_timeline_packets_intern(&t->packets, &t->packets.annotation_names, name));
    dp_formats_timeline_put_number(&t->packets.innermost, ANNOTATION_INT, (uint64_t)value);
    dp_formats_timeline_put_message(&t->packets.inner, EVENT_ANNOTATION, &t->packets.innermost);
}

static void annotate_text(struct trace *t, const char *name, const char *value)
{
    dp_formats_timeline_put_number(&t->packets.innermost, ANNOTATION_NAME_IID,
                                   dp_formats_timeline_packets_intern(&t->packets, &t->packets.annotation_names, name));
    dp_formats_timeline_put_number(
        &t->packets.innermost, ANNOTATION_STRING_IID,
        dp_formats_timeline_packets_intern(&t->packets, &t->packets.annotation_strings, value));
    dp_formats_timeline_put_message(&t->packets.inner, EVENT_ANNOTATION, &t->packets.innermost);
}

static void add_to_text(struct trace *t, const char *part)
{
    size_t n = strlen(part);
    char *at = dp_vec_room(&t->text, n + 2);
    if (!at) {
        t->packets.err = -ENOMEM;
        return;
    }
    t->text.n += (size_t)sprintf(at, "%s%s", t->text.n ? "\n" : "", part);
}

/* The names of the stack's functions, the innermost first, a line each; *leaf: the first of the user's own. */
static const char *stack_text(struct trace *t, const struct dp_formats_timeline_event *e, const char **leaf)
{
    struct dp_formats_timeline *timeline = t->timeline;
    const struct dp_model *m = &timeline->model;
    uint32_t leaf_name = UINT32_MAX, first_name = UINT32_MAX;
    dp_vec_clear(&t->text);
    for (uint32_t i = 0; i < dp_model_depth(m, e->row) && !t->packets.err; i++) {
        uint32_t first;
        int n = dp_query_naming_frames_of(&timeline->frames, dp_model_stack(m, e->row)[i], &first);
        if (n < 0)
            t->packets.err = n;
        for (int k = 0; k < n; k++) {
            const struct dp_query_naming_frame *frame = &timeline->frames.at.at[first + (uint32_t)k];
            add_to_text(t, dp_query_naming_frames_text(&timeline->frames, frame->name));
            if (first_name == UINT32_MAX)
                first_name = frame->name;
            if (leaf_name == UINT32_MAX && !frame->is_foreign && !frame->is_passing && !frame->is_unnamed)
                leaf_name = frame->name;
        }
    }
    uint32_t name = leaf_name != UINT32_MAX ? leaf_name : first_name;
    *leaf = name != UINT32_MAX ? dp_query_naming_frames_text(&timeline->frames, name) : "[no stack]";
    return t->text.n ? t->text.at : "";
}

static void annotate_labels(struct trace *t, const struct dp_formats_timeline_event *e)
{
    const struct dp_model *m = &t->timeline->model;
    for (uint32_t i = 0; i < dp_model_n_labels(m, e->row); i++) {
        const struct dp_model_label *label = &m->labels.at[dp_model_labels(m, e->row)[i]];
        if (label->str)
            annotate_text(t, dp_model_text(m, label->key), dp_model_text(m, label->str));
    }
}

/* An event's begin, or the whole of an instant. */
static void write_event(struct trace *t, const struct dp_formats_timeline_event *e, enum type type, int64_t time_ns)
{
    const char *leaf, *stack = stack_text(t, e, &leaf), *lock = dp_formats_timeline_label(t->timeline, e, "lock");
    char name[300];
    const char *state = dp_formats_timeline_is_state(e) ? dp_formats_timeline_label(t->timeline, e, "state") : NULL;
    const char *what = e->values[DP_KIND_EVENT_MUTEX_CONTENTIONS] ? "unlock"
                       : dp_formats_timeline_is_wait(e)           ? "wait"
                       : dp_formats_timeline_is_state(e)          ? "state"
                       : e->values[DP_KIND_EVENT_SAMPLES]         ? "cpu"
                                                                  : "alloc";
    if (state)
        snprintf(name, sizeof name, "%s", state);
    else
        snprintf(name, sizeof name, "%s%s%s: %s", what, lock ? " " : "", lock ? lock : "", leaf);
    dp_formats_timeline_put_number(&t->packets.packet, TIMESTAMP, (uint64_t)time_ns);
    dp_formats_timeline_put_number(&t->packets.inner, EVENT_TYPE, type);
    dp_formats_timeline_put_number(&t->packets.inner, EVENT_TRACK, track_of(t->timeline, e));
    dp_formats_timeline_put_text(&t->packets.inner, EVENT_CATEGORIES, what);
    dp_formats_timeline_put_number(&t->packets.inner, EVENT_NAME_IID,
                                   dp_formats_timeline_packets_intern(&t->packets, &t->packets.event_names, name));
    for (size_t i = 0; i < DP_KIND_EVENT_TYPES; i++)
        if (e->values[i])
            annotate_number(t, dp_kind_table[DP_KIND_EVENTS].types[i].name, e->values[i]);
    annotate_labels(t, e);
    annotate_text(t, "stack", stack);
    dp_formats_timeline_put_message(&t->packets.packet, TRACK_EVENT, &t->packets.inner);
    dp_formats_timeline_packets_tell(&t->packets);
    dp_formats_timeline_put_number(&t->packets.packet, SEQUENCE_FLAGS, NEEDS_STATE);
    dp_formats_timeline_packets_write(&t->packets);
}

static void write_end(struct trace *t, const struct dp_formats_timeline_event *e)
{
    dp_formats_timeline_put_number(&t->packets.packet, TIMESTAMP, (uint64_t)e->end_ns);
    dp_formats_timeline_put_number(&t->packets.inner, EVENT_TYPE, SLICE_END);
    dp_formats_timeline_put_number(&t->packets.inner, EVENT_TRACK, track_of(t->timeline, e));
    dp_formats_timeline_put_message(&t->packets.packet, TRACK_EVENT, &t->packets.inner);
    dp_formats_timeline_packets_write(&t->packets);
}

/* The begin or the end of an event: a slice has both. */
struct moment {
    int64_t time_ns;
    uint32_t event;
    bool is_begin;
};

/* At the same time ends come before begins, so that waits that follow each other do not nest. */
static int by_time(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->is_begin != y->is_begin ? (x->is_begin ? 1 : -1) : (x->event > y->event) - (x->event < y->event);
}

static void write_moments(struct trace *t, const struct moment *moments, size_t n, int64_t *allocated)
{
    const struct dp_formats_timeline *timeline = t->timeline;
    for (size_t i = 0; i < n && !t->packets.err; i++) {
        const struct dp_formats_timeline_event *e = &timeline->events.at[moments[i].event];
        uint32_t process = timeline->threads.at[e->thread].process;
        if (moments[i].is_begin)
            write_event(t, e, SLICE_BEGIN, moments[i].time_ns);
        else if (e->duration_ns)
            write_end(t, e);
        else
            write_event(t, e, INSTANT, e->end_ns);
        if (!moments[i].is_begin && e->values[DP_KIND_EVENT_ALLOC_SPACE]) {
            allocated[process] += e->values[DP_KIND_EVENT_ALLOC_SPACE];
            write_counter(t, process_track(process, 1), e->end_ns, allocated[process]);
        }
    }
}

static int write_events(struct trace *t)
{
    const struct dp_formats_timeline *timeline = t->timeline;
    struct moment *moments = malloc((2 * timeline->events.n + 1) * sizeof *moments);
    int64_t *allocated = calloc(timeline->processes.n + 1, sizeof *allocated);
    size_t n = 0;
    for (size_t i = 0; moments && i < timeline->events.n; i++) {
        const struct dp_formats_timeline_event *e = &timeline->events.at[i];
        if (e->duration_ns)
            moments[n++] = (struct moment){e->end_ns - e->duration_ns, (uint32_t)i, true};
        moments[n++] = (struct moment){e->end_ns, (uint32_t)i, false};
    }
    if (moments && allocated) {
        qsort(moments, n, sizeof *moments, by_time);
        write_moments(t, moments, n, allocated);
    } else {
        t->packets.err = -ENOMEM;
    }
    free(moments);
    free(allocated);
    return t->packets.err;
}

int dp_formats_timeline_write_perfetto(struct dp_formats_timeline *timeline, dp_pprof_write_fn fn, void *ctx)
{
    struct trace t = {.timeline = timeline, .packets = {.fn = fn, .ctx = ctx}};
    write_clocks(&t);
    for (size_t i = 0; i < timeline->processes.n; i++)
        write_process(&t, i);
    for (size_t i = 0; i < timeline->threads.n; i++)
        write_thread(&t, i);
    for (size_t i = 0; i < timeline->threads.n; i++)
        write_states(&t, i);
    for (size_t i = 0; i < timeline->levels.n; i++)
        write_counter(&t, process_track(timeline->levels.at[i].process, 2), timeline->levels.at[i].time_ns,
                      timeline->levels.at[i].inuse_bytes);
    if (!t.packets.err)
        write_events(&t);
    dp_formats_timeline_packets_fini(&t.packets);
    dp_vec_fini(&t.text);
    return t.packets.err;
}
