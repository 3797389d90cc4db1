/* SPDX-License-Identifier: MIT */
/*
 * host/report/event_profile.c - turns the ring's events into samples. Each event has a record id. Its stack and its
 * labels are found by this id, in the same way as for an aggregated row.
 *
 * Events have times of the monotonic clock, and the profile has times of the wall clock. All of them are converted with
 * the difference that the two clocks have while the profile is written. So if the wall clock was set during the window,
 * all events move by the same amount, and the times between them stay right.
 */
#include "host/report/event_profile.h"

#include "base/clock.h"
#include "base/process.h"
#include "base/stats.h"
#include "base/text.h"
#include "profile/comments.h"
#include "host/table/event_ring.h"
#include "host/table/labels.h"
#include "host/table/trace_context.h"
#include "host/report/emit.h"
#include "host/report/profile.h"
#include "host/report/published_trace.h"
#include "host/report/settings.h"
#include "host/report/table_source.h"
#include "host/symbols/loader_sync.h"
#include "host/symbols/symbol.h"

#include <errno.h>
#include <string.h>

enum { N_TYPES = DP_KIND_EVENT_TYPES, N_LABELS = 5 };

static struct {
    uint64_t written_end; /* of the last write */
    int64_t written_ns;
    int64_t from_ns;                      /* monotonic: end of the last delivered window; 0: none yet */
    struct dp_location_settings settings; /* of the last write; kept if another thread is changing them */
} state;

struct pass {
    struct dp_encode *encode;
    struct dp_locations *locations;
    uint64_t first, end;
    int64_t now_ns, wall_ns; /* the same moment on both clocks */
    struct dp_emit_source sources[DP_KIND_TABLES];
    int64_t key_time, key_thread; /* strings */
};

/* Lowers p->end to the first event that is not complete. Returns a bit for each kind of event before it. */
static unsigned survey(struct pass *p)
{
    struct dp_timed_event event;
    unsigned kinds = 0, n = 1;
    for (uint64_t i = p->first; i < p->end; i += n) {
        n = dp_events_read(i, &event);
        if (!n) {
            p->end = i;
            break;
        }
        kinds |= 1u << event.kind;
    }
    return kinds;
}

/* The second value of the first kind, by rank, that has events. */
static const char *default_type(unsigned kinds)
{
    unsigned first = 0;
    for (unsigned kind = 0, rank = DP_KINDS; kind < DP_KIND_TABLES; kind++)
        if (kinds >> kind & 1 && dp_kind_table[kind].rank < rank) {
            first = kind;
            rank = dp_kind_table[kind].rank;
        }
    return dp_kind_table[DP_KIND_EVENTS].types[dp_kind_table[first].types[1].event].name;
}

static void header(const struct pass *p, unsigned kinds)
{
    struct dp_timed_event event;
    int64_t from_ns = state.from_ns;
    dp_events_read(p->first, &event);
    if (!from_ns || event.time_ns < from_ns)
        from_ns = event.time_ns - event.duration_ns;
    const struct dp_kind *k = &dp_kind_table[DP_KIND_EVENTS];
    struct dp_encode_value_type types[N_TYPES];
    for (size_t i = 0; i < N_TYPES; i++)
        types[i] = (struct dp_encode_value_type){k->types[i].name, k->types[i].unit};
    struct dp_encode_header h = {
        .types = types,
        .n_types = N_TYPES,
        .period_type = {k->period_type, k->period_unit},
        .period = 1,
        .time_ns = p->wall_ns - (p->now_ns - from_ns),
        .duration_ns = p->now_ns > from_ns ? p->now_ns - from_ns : 1,
        .default_type = default_type(kinds),
    };
    dp_encode_header(p->encode, &h);
    dp_encode_comment(p->encode, DP_COMMENT_VERSION DELTAPROF_VERSION);
    uint64_t n_lost = dp_stats_read(DP_STAT_EVENTS_LOST);
    char line[160];
    if (n_lost) {
        dp_text_format(line, sizeof line, "%llu %s", (unsigned long long)n_lost, dp_stats_words(DP_STAT_EVENTS_LOST));
        dp_encode_comment(p->encode, line);
    }
}

static int64_t string(struct pass *p, const char *text)
{
    return dp_encode_string(p->encode, text, strlen(text));
}

static int64_t hex(struct pass *p, const void *bytes, size_t n_bytes)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *at = bytes;
    char text[32];
    for (size_t i = 0; i < n_bytes; i++) {
        text[2 * i] = digits[at[i] >> 4];
        text[2 * i + 1] = digits[at[i] & 15];
    }
    return dp_encode_string(p->encode, text, 2 * n_bytes);
}

/*
 * Labels of the thread with these keys win: no key may stand twice. But the label of `trace` may be [other], and the
 * event knows its trace. Returns the number of labels.
 */
static size_t add_trace_labels(struct pass *p, const struct dp_timed_event *event, struct dp_encode_label *labels,
                               size_t n)
{
    int64_t key_trace = string(p, DP_LABELS_TRACE_KEY), key_span = string(p, "span_id");
    bool is_added = dp_load_relaxed(&dp_labels_added) & DP_LABELS_TRACE;
    size_t at = n;
    for (size_t i = 0; i < n; i++)
        if (labels[i].key == key_trace && is_added)
            at = i;
        else if (labels[i].key == key_trace || labels[i].key == key_span)
            return n;
    labels[at] = (struct dp_encode_label){.key = key_trace, .str = hex(p, event->trace, DP_TRACE_ID_BYTES)};
    n += at == n;
    labels[n++] = (struct dp_encode_label){.key = key_span, .str = hex(p, event->trace + 2, DP_TRACE_SPAN_BYTES)};
    return n;
}

static size_t time_labels(struct pass *p, const struct dp_timed_event *event, struct dp_encode_label *labels)
{
    size_t n = 0;
    labels[n++] = (struct dp_encode_label){.key = p->key_time, .num = p->wall_ns - (p->now_ns - event->time_ns)};
    labels[n++] = (struct dp_encode_label){.key = p->key_thread, .num = event->tid};
    if (dp_kind_table[event->kind].has_durations && event->duration_ns != event->value)
        labels[n++] = (struct dp_encode_label){
            .key = string(p, "duration"), .num = event->duration_ns, .num_unit = string(p, "nanoseconds")};
    return n;
}

static void samples(struct pass *p)
{
    uint32_t stack[DP_EMIT_STACK_MAX];
    struct dp_encode_label labels[DP_EMIT_LABELS_MAX + N_LABELS];
    struct dp_timed_event event;
    unsigned n = 1;
    for (uint64_t i = p->first; i < p->end && !p->locations->err; i += n) {
        int64_t values[N_TYPES] = {0};
        n = dp_events_read(i, &event);
        const struct dp_emit_source *source = &p->sources[event.kind];
        struct dp_row row = {.id = event.record};
        size_t depth = source->stack(source->ctx, p->locations, &row, stack);
        size_t n_labels = source->labels(source->ctx, p->locations, &row, labels);
        if (event.is_traced)
            n_labels = add_trace_labels(p, &event, labels, n_labels);
        n_labels += time_labels(p, &event, labels + n_labels);
        const struct dp_kind_type *of = dp_kind_table[event.kind].types; /* its first two are those of an event */
        values[of[0].event] = event.n;
        values[of[1].event] = event.value;
        dp_encode_sample_refs(p->encode, stack, depth, values, labels, n_labels);
    }
}

static int profile(struct pass *p, unsigned kinds)
{
    int err = dp_locations_begin(p->locations, p->encode, &state.settings);
    if (err)
        return err;
    header(p, kinds);
    p->key_time = string(p, "end_timestamp_ns");
    p->key_thread = string(p, "thread id");
    for (unsigned kind = 0; kind < DP_KIND_TABLES; kind++)
        p->sources[kind] = dp_report_table_source(kind);
    samples(p);
    return dp_locations_end(p->locations);
}

int dp_report_events_write(unsigned flags, struct dp_symbols_files *files, dp_pprof_write_fn fn, void *ctx)
{
    bool waits = !(flags & DP_WRITE_NO_WAIT);
    struct pass p = {0};
    dp_clock_moment(&p.now_ns, &p.wall_ns);
    dp_events_range(&p.first, &p.end);
    unsigned kinds = survey(&p);
    if (!kinds)
        return 1;
    const struct dp_config *conf = dp_report_settings_lock(waits);
    if (conf) {
        state.settings = (struct dp_location_settings){.symbolize = conf->symbolize, .address = conf->address};
        dp_report_settings_unlock();
    }
    state.settings.no_wait = !waits;
    state.settings.files = waits ? files : NULL;
    dp_objects_recheck();
    if (waits) {
        dp_symbols_loader_sync();
        dp_report_find_published_trace();
        dp_symbols_load(state.settings.symbolize);
        dp_report_load_gzip();
    }
    struct dp_report_write_buffers *buffers = dp_report_write_buffers_get();
    if (!buffers)
        return -ENOMEM;
    p.locations = &buffers->locations;
    p.encode = dp_report_write_buffers_open(buffers, flags & DP_WRITE_RAW, fn, ctx);
    int err = p.encode ? profile(&p, kinds) : -ENOMEM;
    err = dp_report_write_buffers_close(buffers, flags & DP_WRITE_RAW, err);
    dp_report_write_buffers_put(buffers, (size_t)4 << 20);
    state.written_end = p.end;
    state.written_ns = p.now_ns;
    return err;
}

void dp_report_events_deliver(void)
{
    dp_events_drop(state.written_end);
    state.from_ns = state.written_ns;
}

DP_IN_CHILD void dp_report_events_fork_child(void)
{
    state.from_ns = 0;
}
