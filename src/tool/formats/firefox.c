/* SPDX-License-Identifier: MIT */
/*
 * tool/formats/firefox.c - writes the processed profile format of Firefox Profiler, version 47, which every later
 * release upgrades when it loads it.
 *
 * Source: the types in that project's src/types/profile.ts. A profile is a list of threads. Each thread has tables of
 * strings, functions, frames and stacks (firefox_tables.h). Allocations are nativeAllocations: time, weight in bytes,
 * stack. Samples of CPU time are samples with that time in ms as weight. Waits are markers with their stack as the
 * cause, and samples too, with their length, so that the call tree shows where a thread ran and waited. Time off the
 * processor is likewise a sample, and a marker that has the name of the state. Times are ms
 * since meta.startTime. A thread without allocations has no table of them: the profiler reads the time of a table's
 * first row, and an empty one makes the range of all threads invalid.
 */
#include "tool/formats/firefox_tables.h"
#include "tool/formats/trace_text.h"
#include "tool/formats/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 47, INTERVAL_MS = 1 };

/* ---- events ---- */

static void say_stack(struct dp_formats_timeline_text *out, int32_t stack)
{
    if (stack == DP_TIMELINE_NO_STACK)
        dp_formats_timeline_say(out, "null");
    else
        dp_formats_timeline_say(out, "%" PRId32, stack);
}

static double ms(const struct dp_formats_timeline *t, int64_t time_ns)
{
    return (double)(time_ns - t->begin_ns) / 1e6;
}

/* Writes a column: calls `say` for each event of the thread for which `is` returns true. */
typedef bool (*is_fn)(const struct dp_formats_timeline_event *);
typedef void (*say_fn)(struct dp_formats_timeline_text *, struct dp_formats_timeline_tables *,
                       const struct dp_formats_timeline_event *);
static size_t events_column(struct dp_formats_timeline_text *out, struct dp_formats_timeline_tables *t, uint32_t thread,
                            const char *name, is_fn is, say_fn say)
{
    size_t n = 0;
    dp_formats_timeline_say_column(out, name);
    for (size_t i = 0; i < t->timeline->events.n; i++) {
        const struct dp_formats_timeline_event *e = &t->timeline->events.at[i];
        if (e->thread != thread || !is(e))
            continue;
        dp_formats_timeline_say_comma(out, n++);
        say(out, t, e);
    }
    dp_formats_timeline_say(out, "],");
    return n;
}

static bool is_alloc(const struct dp_formats_timeline_event *e)
{
    return e->values[DP_KIND_EVENT_ALLOC_OBJECTS] || e->values[DP_KIND_EVENT_ALLOC_SPACE];
}

static bool is_time(const struct dp_formats_timeline_event *e)
{
    return dp_formats_timeline_is_wait(e) || dp_formats_timeline_is_state(e) || e->values[DP_KIND_EVENT_SAMPLES];
}

static bool is_marker(const struct dp_formats_timeline_event *e)
{
    return !is_alloc(e) && !e->values[DP_KIND_EVENT_SAMPLES];
}

static void say_end(struct dp_formats_timeline_text *out, struct dp_formats_timeline_tables *t,
                    const struct dp_formats_timeline_event *e)
{
    dp_formats_timeline_say(out, "%.6f", ms(t->timeline, e->end_ns));
}

static void say_begin(struct dp_formats_timeline_text *out, struct dp_formats_timeline_tables *t,
                      const struct dp_formats_timeline_event *e)
{
    dp_formats_timeline_say(out, "%.6f", ms(t->timeline, e->end_ns - e->duration_ns));
}

/* A marker that is an instant has no end. */
static void say_marker_end(struct dp_formats_timeline_text *out, struct dp_formats_timeline_tables *t,
                           const struct dp_formats_timeline_event *e)
{
    if (e->duration_ns)
        say_end(out, t, e);
    else
        dp_formats_timeline_say(out, "null");
}

static void say_phase(struct dp_formats_timeline_text *out, struct dp_formats_timeline_tables *t,
                      const struct dp_formats_timeline_event *e)
{
    (void)t;
    dp_formats_timeline_say(out, e->duration_ns ? "1" : "0");
}

static void say_event_stack(struct dp_formats_timeline_text *out, struct dp_formats_timeline_tables *t,
                            const struct dp_formats_timeline_event *e)
{
    say_stack(out, dp_formats_timeline_tables_stack(t, e->row));
}

static void say_bytes(struct dp_formats_timeline_text *out, struct dp_formats_timeline_tables *t,
                      const struct dp_formats_timeline_event *e)
{
    (void)t;
    dp_formats_timeline_say(out, "%lld", (long long)e->values[DP_KIND_EVENT_ALLOC_SPACE]);
}

static void say_time_ms(struct dp_formats_timeline_text *out, struct dp_formats_timeline_tables *t,
                        const struct dp_formats_timeline_event *e)
{
    (void)t;
    int64_t ns = e->values[DP_KIND_EVENT_DELAY] + e->values[DP_KIND_EVENT_CPU] + e->values[DP_KIND_EVENT_WALL];
    dp_formats_timeline_say(out, "%.6f", (double)ns / 1e6);
}

static const char *marker_type(const struct dp_formats_timeline_event *e)
{
    return dp_formats_timeline_is_wait(e) ? "wait" : dp_formats_timeline_is_state(e) ? "state" : "unlock";
}

static const char *state_of(const struct dp_formats_timeline *timeline, const struct dp_formats_timeline_event *e)
{
    const char *state = dp_formats_timeline_is_state(e) ? dp_formats_timeline_label(timeline, e, "state") : NULL;
    return state ? state : "";
}

static void say_name(struct dp_formats_timeline_text *out, struct dp_formats_timeline_tables *t,
                     const struct dp_formats_timeline_event *e)
{
    const char *state = state_of(t->timeline, e);
    const char *name = *state ? state : marker_type(e);
    dp_formats_timeline_say(out, "%" PRIu32, dp_formats_timeline_tables_add_string(t, name));
}

static void say_data(struct dp_formats_timeline_text *out, struct dp_formats_timeline_tables *t,
                     const struct dp_formats_timeline_event *e)
{
    const char *lock = dp_formats_timeline_label(t->timeline, e, "lock");
    bool wait = dp_formats_timeline_is_wait(e);
    if (dp_formats_timeline_is_state(e)) {
        dp_formats_timeline_say(
            out, "{\"type\":\"state\",\"time\":%.6f,\"state\":", (double)e->values[DP_KIND_EVENT_WALL] / 1e6);
        dp_formats_timeline_say_string(out, state_of(t->timeline, e));
    } else {
        dp_formats_timeline_say(
            out, "{\"type\":\"%s\",\"delay\":%.6f,\"contentions\":%lld,\"lock\":", marker_type(e),
            (double)e->values[wait ? DP_KIND_EVENT_DELAY : DP_KIND_EVENT_MUTEX_DELAY] / 1e6,
            (long long)e->values[wait ? DP_KIND_EVENT_CONTENTIONS : DP_KIND_EVENT_MUTEX_CONTENTIONS]);
        dp_formats_timeline_say_string(out, lock ? lock : "");
    }
    int32_t stack = dp_formats_timeline_tables_stack(t, e->row);
    if (stack != DP_TIMELINE_NO_STACK)
        dp_formats_timeline_say(out, ",\"cause\":{\"time\":%.6f,\"stack\":%" PRId32 "}", ms(t->timeline, e->end_ns),
                                stack);
    dp_formats_timeline_say(out, "}");
}

/* ---- threads ---- */

static void say_thread_head(struct dp_formats_timeline_text *out, const struct dp_formats_timeline *timeline,
                            uint32_t number)
{
    const struct dp_formats_timeline_thread *thread = &timeline->threads.at[number];
    const struct dp_formats_timeline_process *p = &timeline->processes.at[thread->process];
    bool is_main = thread->tid == p->pid;
    dp_formats_timeline_say(out, "{\"processType\":\"default\",\"processName\":");
    dp_formats_timeline_say_string(out, p->name);
    dp_formats_timeline_say(out,
                            ",\"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":0,"
                            "\"unregisterTime\":null,\"pausedRanges\":[],\"isMainThread\":%s,\"pid\":\"%lld\","
                            "\"tid\":%lld,\"name\":",
                            is_main ? "true" : "false", (long long)p->pid, (long long)thread->tid);
    char tid[40];
    snprintf(tid, sizeof tid, "thread %lld", (long long)thread->tid);
    dp_formats_timeline_say_string(out, thread->name ? dp_model_text(&timeline->model, thread->name)
                                        : is_main    ? p->name
                                                     : tid);
}

static void say_allocations(struct dp_formats_timeline_text *out, struct dp_formats_timeline_tables *t, uint32_t number)
{
    dp_formats_timeline_say(out, "\"nativeAllocations\":{\"weightType\":\"bytes\",");
    events_column(out, t, number, "weight", is_alloc, say_bytes);
    events_column(out, t, number, "stack", is_alloc, say_event_stack);
    size_t n = events_column(out, t, number, "time", is_alloc, say_end);
    dp_formats_timeline_say(out, "\"length\":%zu},\n", n);
}

static bool has_allocations(const struct dp_formats_timeline *timeline, uint32_t thread)
{
    for (size_t i = 0; i < timeline->events.n; i++)
        if (timeline->events.at[i].thread == thread && is_alloc(&timeline->events.at[i]))
            return true;
    return false;
}

static void say_thread(struct dp_formats_timeline_text *out, struct dp_formats_timeline_tables *t, uint32_t number)
{
    say_thread_head(out, t->timeline, number);
    dp_formats_timeline_say(out, ",\n\"samples\":{\"weightType\":\"tracing-ms\",");
    events_column(out, t, number, "weight", is_time, say_time_ms);
    events_column(out, t, number, "stack", is_time, say_event_stack);
    size_t n = events_column(out, t, number, "time", is_time, say_end);
    dp_formats_timeline_say(out, "\"length\":%zu},\n", n);
    if (has_allocations(t->timeline, number))
        say_allocations(out, t, number);
    dp_formats_timeline_say(out, "\"markers\":{");
    events_column(out, t, number, "name", is_marker, say_name);
    events_column(out, t, number, "startTime", is_marker, say_begin);
    events_column(out, t, number, "endTime", is_marker, say_marker_end);
    events_column(out, t, number, "phase", is_marker, say_phase);
    n = events_column(out, t, number, "data", is_marker, say_data);
    dp_formats_timeline_say_same(out, "category", n, "0");
    dp_formats_timeline_say(out, "\"length\":%zu},\n", n);
    dp_formats_timeline_tables_say(out, t);
    dp_formats_timeline_say(out, "}");
}

static const char schema[] =
    "\"markerSchema\":["
    "{\"name\":\"wait\",\"tooltipLabel\":\"wait for {marker.data.lock}\",\"tableLabel\":\"{marker.data.lock}\","
    "\"display\":[\"marker-chart\",\"marker-table\",\"timeline-overview\"],"
    "\"data\":[{\"key\":\"lock\",\"label\":\"lock\",\"format\":\"string\"},"
    "{\"key\":\"delay\",\"label\":\"delay\",\"format\":\"duration\"},"
    "{\"key\":\"contentions\",\"label\":\"waits that it stands for\",\"format\":\"integer\"}]},\n"
    "{\"name\":\"state\",\"tooltipLabel\":\"{marker.data.state}\",\"tableLabel\":\"{marker.data.state}\","
    "\"display\":[\"marker-chart\",\"marker-table\",\"timeline-overview\"],"
    "\"data\":[{\"key\":\"state\",\"label\":\"state\",\"format\":\"string\"},"
    "{\"key\":\"time\",\"label\":\"time\",\"format\":\"duration\"}]},\n"
    "{\"name\":\"unlock\",\"tooltipLabel\":\"unlock that others waited for\",\"tableLabel\":\"{marker.data.lock}\","
    "\"display\":[\"marker-chart\",\"marker-table\"],"
    "\"data\":[{\"key\":\"lock\",\"label\":\"lock\",\"format\":\"string\"},"
    "{\"key\":\"delay\",\"label\":\"they waited\",\"format\":\"duration\"}]}]";

/* The end of the last event; events are sorted by it. The range of the profile must end after it. */
static int64_t end_of(const struct dp_formats_timeline *timeline)
{
    return timeline->events.n ? timeline->events.at[timeline->events.n - 1].end_ns : timeline->begin_ns;
}

int dp_formats_timeline_write_firefox(struct dp_formats_timeline *timeline, dp_pprof_write_fn fn, void *ctx)
{
    struct dp_formats_timeline_tables t;
    struct dp_formats_timeline_text *out = calloc(1, sizeof *out);
    int err = out ? dp_formats_timeline_tables_init(&t, timeline) : -ENOMEM;
    if (err) {
        free(out);
        return err;
    }
    out->fn = fn;
    out->ctx = ctx;
    dp_formats_timeline_say(out,
                            "{\"meta\":{\"interval\":%d,\"startTime\":%.6f,\"profilingStartTime\":0,"
                            "\"profilingEndTime\":%.6f,\"processType\":0,\"product\":\"deltaprof\","
                            "\"stackwalk\":1,\"version\":27,\"preprocessedProfileVersion\":%d,\"symbolicated\":true,"
                            "\"keepProfileThreadOrder\":true,\"debug\":false,\"categories\":[{\"name\":\"Other\","
                            "\"color\":\"grey\",\"subcategories\":[\"Other\"]}],",
                            INTERVAL_MS, (double)timeline->begin_ns / 1e6, ms(timeline, end_of(timeline)) + INTERVAL_MS,
                            VERSION);
    for (const char *at = schema; *at; at += 256 < strlen(at) ? 256 : strlen(at))
        dp_formats_timeline_say(out, "%.256s", at);
    dp_formats_timeline_say(out, "},\n\"libs\":[],\"pages\":[],\"threads\":[\n");
    for (uint32_t i = 0; i < timeline->threads.n && !t.err && !out->err; i++) {
        dp_formats_timeline_tables_begin(&t);
        dp_formats_timeline_say(out, i ? ",\n" : "");
        say_thread(out, &t, i);
    }
    dp_formats_timeline_say(out, "]}\n");
    err = dp_formats_timeline_text_end(out);
    if (t.err)
        err = t.err;
    dp_formats_timeline_tables_fini(&t);
    free(out);
    return err;
}
