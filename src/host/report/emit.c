/* SPDX-License-Identifier: MIT */
/*
 * host/report/emit.c - writes a profile: header, comments, one sample per row, mappings, in one streaming pass through
 * the encoder into gzip. The rows that max_samples folds are chosen before the pass, so they cost no locations.
 *
 * Where memory may be short, as many of the heaviest rows as surely fit are written first, by the power of two of their
 * weight, then the others. A row for whose stack there is no memory is added to [overflow], for which a reserve was
 * kept. So the totals stay true, and only light rows lose their stacks. This order takes twice the time, and its
 * profile is a third larger. Most profiles need little memory, because their rows share locations, and the buffers of
 * the last profile are there. So rows are written in order until a quarter of the memory is used, and the rest of it is
 * for the heaviest of the rows that are left.
 */
#include "host/report/emit.h"
#include "host/symbols/outside.h"

#include "base/stats.h"
#include "base/text.h"
#include "profile/comments.h"
#include "host/report/fold.h"
#include "host/report/profile.h"
#include "host/report/settings.h"
#include "host/table/heaps.h"
#include "host/table/record.h"

#include <errno.h>
#include <string.h>

struct pass {
    const struct dp_emission *emission;
    const struct dp_rows *rows;
    const struct dp_emit_source *source;
    struct dp_encode *encode;
    struct dp_locations *locations;
    struct dp_fold fold;
    size_t next_more;            /* for add_values */
    int64_t other[DP_TYPES_MAX]; /* sum of the folded rows */
    bool folded;
    int64_t summed[2][DP_TYPES_MAX]; /* [overflow]: own and inherited */
    uint32_t overflow;               /* its location; 0: none was needed yet */
    uint64_t n_summed;
    void *reserve; /* memory for that, where it may run short */
};

enum { RESERVE_BYTES = 64 << 10 };

/* The values beside those of the row itself. */
static void add_values(struct pass *p, const struct dp_row *row, int64_t *values)
{
    const struct dp_kind_source *source = dp_kind_source_of(p->emission->kind);
    if (p->emission->more && source->add_values)
        source->add_values(p->emission->more, &p->next_more, row, values);
}

/* The row's values as they are written. */
static void scaled(const struct pass *p, const struct dp_row *row, int64_t *values)
{
    memcpy(values, row->values, sizeof row->values);
    if (p->source->scale)
        p->source->scale(p->source->ctx, values);
}

/* The weight by which the smallest rows are folded: bytes, or delay. */
static int64_t weight(const struct pass *p, const int64_t *values)
{
    const struct dp_columns *columns = &p->emission->columns;
    int64_t sum = 0;
    for (size_t i = 1; i < columns->n_types && i < DP_VALUES_MAX; i += 2)
        sum += values[columns->first + i];
    return sum;
}

static void plan(struct pass *p)
{
    size_t n = p->rows->n, max = (size_t)p->emission->max_samples;
    if (!max || n <= max)
        return;
    int64_t *weights = dp_mem_map(n * sizeof *weights), values[DP_VALUES_MAX];
    if (!weights)
        return; /* as many rows are written as there is memory for */
    for (size_t i = 0; i < n; i++) {
        scaled(p, &p->rows->at[i], values);
        weights[i] = weight(p, values);
    }
    dp_fold_plan(&p->fold, weights, n, max - 1);
    dp_mem_unmap(weights, n * sizeof *weights);
    p->folded = true;
}

static void header(const struct pass *p)
{
    const struct dp_emission *e = p->emission;
    struct dp_encode_header h = {
        .types = e->columns.types,
        .n_types = e->columns.n_types,
        .period_type = {dp_kind_table[e->kind].period_type, dp_kind_table[e->kind].period_unit},
        .period = e->period,
        .time_ns = e->time_ns,
        .duration_ns = e->duration_ns,
        .default_type = e->default_type,
    };
    dp_encode_header(p->encode, &h);
}

/* Writes the comment "N words", without stdio: the profile may be written in a crash handler. */
static void count_comment(struct dp_encode *encode, uint64_t n, const char *words)
{
    char line[192], *p = line + 24;
    *stpncpy(p, words, sizeof line - 25) = 0;
    *--p = ' ';
    do
        *--p = (char)('0' + n % 10);
    while (n /= 10);
    dp_encode_comment(encode, p);
}

static void number_comment(struct dp_encode *encode, const char *begin, const char *middle, int64_t number)
{
    char line[128];
    dp_profile_comment_format(line, sizeof line, begin, middle, number);
    dp_encode_comment(encode, line);
}

static void seconds_comment(struct dp_encode *encode, int64_t covered_ns, int64_t stated_ns)
{
    char line[160];
    dp_text_format(line, sizeof line,
                   "covers %lld s, stated as the last %lld s: databases refuse a profile that began an hour ago",
                   (long long)(covered_ns / 1000000000), (long long)(stated_ns / 1000000000));
    dp_encode_comment(encode, line);
}

/* Blocks that are older are not in the profile. The time is in UTC. */
static void since_comment(struct dp_encode *encode, int64_t wall_ns)
{
    char line[160], time[32];
    dp_text_utc(time, sizeof time, wall_ns);
    dp_text_format(line, sizeof line, "on since %s: what was allocated or locked before is not in it", time);
    dp_encode_comment(encode, line);
}

static void stuck_comment(struct dp_encode *encode, const struct dp_emission *e)
{
    char line[sizeof e->stuck + 64];
    dp_text_format(line, sizeof line, DP_COMMENT_STUCK "%lld %s", (long long)(e->stuck_ns / 1000000), e->stuck);
    dp_encode_comment(encode, line);
}

static void part_comment(struct dp_encode *encode, const char *name, int64_t n_bytes)
{
    char middle[96];
    if (n_bytes <= 0)
        return;
    dp_text_format(middle, sizeof middle, "%s=", name);
    number_comment(encode, DP_COMMENT_RSS_PART, middle, n_bytes);
}

/* `deltaprof rss` shows these names. */
static void parts_comments(struct dp_encode *encode, const struct dp_resident_parts *parts)
{
    char name[80];
    part_comment(encode, DP_RSS_IN_USE, parts->in_use_bytes[0]);
    for (uint32_t heap = 1; heap < DP_RESIDENT_HEAPS; heap++) {
        const char *its = dp_table_heap_name(heap);
        dp_text_format(name, sizeof name, "heap %s" DP_RSS_OF_HEAP, its ? its : "");
        part_comment(encode, name, parts->in_use_bytes[heap]);
    }
    part_comment(encode, DP_RSS_ROUNDING, parts->rounding_bytes);
    /* What was allocated before the profiler was on is not known to be in use. */
    part_comment(encode, dp_report_on_since() ? DP_RSS_HELD_OR_OLDER : DP_RSS_HELD, parts->held_bytes);
    part_comment(encode, DP_RSS_MAPPED, parts->mapped_bytes);
    part_comment(encode, DP_RSS_STACKS, parts->stacks_bytes);
    part_comment(encode, DP_RSS_FILES, parts->files_bytes);
    part_comment(encode, DP_RSS_SELF, parts->self_bytes);
    number_comment(encode, DP_COMMENT_RSS_ERROR, "", parts->error_bytes);
    number_comment(encode, DP_COMMENT_RSS_ABSENT, "", parts->absent_bytes);
    number_comment(encode, DP_COMMENT_INUSE_ROUNDING, "", parts->classes_bytes);
}

static void free_comment(struct dp_encode *encode, const char *name, int64_t number)
{
    char middle[96];
    dp_text_format(middle, sizeof middle, "%s=", name);
    number_comment(encode, DP_COMMENT_FREE, middle, number);
}

static void free_comments(struct dp_encode *encode, const struct dp_emission *e)
{
    free_comment(encode, DP_FREE_TRIM, e->free.trim_bytes);
    free_comment(encode, DP_FREE_PINNED, e->free.pinned_bytes);
    free_comment(encode, DP_FREE_ARENAS, e->free.arena_bytes);
    free_comment(encode, DP_FREE_N, e->free.n_arenas);
    free_comment(encode, DP_FREE_HEAPS, e->free.heap_bytes);
    free_comment(encode, DP_FREE_UNKNOWN, e->free.unknown_bytes);
    free_comment(encode, DP_FREE_TOP, e->free.top_bytes);
    free_comment(encode, DP_FREE_CACHED, e->free.cached_bytes);
    if (e->free.n_jemalloc) {
        free_comment(encode, DP_FREE_JEMALLOC, e->free.n_jemalloc);
        free_comment(encode, DP_FREE_DECAY, e->free.decay_bytes);
        free_comment(encode, DP_FREE_BACKGROUND, e->free.n_background);
        free_comment(encode, DP_FREE_NEVER, e->free.n_never_decay);
    }
    number_comment(encode, DP_COMMENT_ZEROS_UNKNOWN, "", e->unread_bytes);
}

static void idle_comments(struct dp_encode *encode, const struct dp_resident_idle *idle)
{
    number_comment(encode, DP_COMMENT_IDLE, DP_IDLE_MS "=", idle->since_ns / 1000000);
    number_comment(encode, DP_COMMENT_IDLE, DP_IDLE_RESIDENT "=", idle->resident_bytes);
    number_comment(encode, DP_COMMENT_IDLE, DP_IDLE_UNTOUCHED "=", idle->untouched_bytes);
}

static void waste_comment(struct dp_encode *encode, const char *why)
{
    char line[160];
    dp_text_format(line, sizeof line, DP_COMMENT_WASTE_UNKNOWN "%s", why);
    dp_encode_comment(encode, line);
}

_Static_assert((int)DP_KIND_TABLES <= (int)DP_STATS_KINDS, "each kind with records has counters");

/* What the kind's profiles tell of a counter. */
static uint64_t count_of_kind(enum dp_stat which, unsigned kind)
{
    uint64_t n = dp_stats_read_of(which, kind);
    return dp_stats_subject(which) & dp_kind_table[kind].losses ? n + dp_load_relaxed(&dp_stats[which]) : n;
}

/* Titles, summaries and losses are shown to users; pprof hides a comment that begins with #. */
static void comments(const struct pass *p)
{
    const struct dp_kind *kind = &dp_kind_table[p->emission->kind];
    if (kind->title)
        dp_encode_comment(p->encode, kind->title);
    if (p->emission->summary[0])
        dp_encode_comment(p->encode, p->emission->summary);
    if (dp_report_on_since())
        since_comment(p->encode, dp_report_on_since());
    if (p->emission->covered_ns)
        seconds_comment(p->encode, p->emission->covered_ns, p->emission->duration_ns);
    dp_encode_comment(p->encode, DP_COMMENT_VERSION DELTAPROF_VERSION);
    if (p->emission->marks & DP_WRITE_ENDED)
        dp_encode_comment(p->encode, DP_COMMENT_ENDED);
    if (p->emission->marks & DP_WRITE_KILLED)
        dp_encode_comment(p->encode, DP_COMMENT_KILLED);
    if (p->emission->marks & DP_WRITE_TABLES)
        dp_encode_comment(p->encode, DP_COMMENT_TABLES);
    if (p->emission->marks & DP_WRITE_EXIT)
        dp_encode_comment(p->encode, DP_COMMENT_EXIT);
    if (p->emission->marks & DP_WRITE_PEAK)
        dp_encode_comment(p->encode, DP_COMMENT_PEAK);
    if (p->emission->has_stuck)
        stuck_comment(p->encode, p->emission);
    if (p->emission->in_use_at_ns)
        number_comment(p->encode, DP_COMMENT_PEAK_AT, "", p->emission->in_use_at_ns);
    if (p->emission->tells_allocated && !dp_symbols_outside.is_on) /* the count is the process's own */
        number_comment(p->encode, DP_COMMENT_ALLOCATED, "", p->emission->allocated_bytes);
    if (p->emission->resident.all_bytes) {
        number_comment(p->encode, DP_COMMENT_RSS_TOTAL, "", p->emission->resident.all_bytes);
        number_comment(p->encode, DP_COMMENT_RSS_ANON, "", p->emission->resident.anon_bytes);
    }
    if (p->emission->has_parts)
        parts_comments(p->encode, &p->emission->parts);
    if (p->emission->has_free)
        free_comments(p->encode, p->emission);
    if (p->emission->idle_unknown)
        dp_encode_comment(p->encode, DP_COMMENT_IDLE_UNKNOWN);
    else if (p->emission->idle.since_ns)
        idle_comments(p->encode, &p->emission->idle);
    if (p->emission->waste_unknown)
        waste_comment(p->encode, p->emission->waste_unknown);
    for (int i = 0; i < DP_STAT_N; i++) {
        uint64_t n = count_of_kind((enum dp_stat)i, p->emission->kind);
        if (i != DP_STAT_ROWS_SUMMED && n)
            count_comment(p->encode, n, dp_stats_words((enum dp_stat)i));
    }
}

static void add(int64_t *sum, const int64_t *values, size_t n)
{
    for (size_t v = 0; v < n; v++)
        sum[v] += values[v];
}

/* Rows of [overflow] are written at the end, as one. */
static bool is_overflow(const struct pass *p, const struct dp_row *row)
{
    return p->source->sums_in_0 && row->id == 0 && !(row->entry >> DP_ROW_PART_SHIFT);
}

static void release_reserve(struct pass *p)
{
    dp_mem_unmap(p->reserve, RESERVE_BYTES);
    p->reserve = NULL;
}

/* After a failure: whether it was for want of memory, and there is some for the location and the label of [overflow].
 */
static bool has_overflow(struct pass *p)
{
    const struct dp_row inherited = {.entry = DP_ROW_INHERITED};
    struct dp_encode_label labels[DP_EMIT_LABELS_MAX];
    if (!dp_locations_clear_no_memory(p->locations))
        return false;
    if (p->overflow)
        return true;
    release_reserve(p);
    p->overflow = dp_locations_frame(p->locations, DP_FRAME_OVERFLOW);
    if (p->source->sums_in_0 && dp_record_epoch())
        p->source->labels(p->source->ctx, p->locations, &inherited, labels);
    return p->overflow && !dp_encode_error(p->encode);
}

static void write_row(struct pass *p, const struct dp_row *row, const int64_t *values)
{
    const struct dp_columns *columns = &p->emission->columns;
    const struct dp_emit_source *source = p->source;
    uint32_t stack[DP_EMIT_STACK_MAX];
    struct dp_encode_label labels[DP_EMIT_LABELS_MAX];
    size_t depth = source->stack(source->ctx, p->locations, row, stack);
    size_t n_labels = source->labels(source->ctx, p->locations, row, labels);
    if (!p->locations->err && !dp_encode_error(p->encode))
        dp_encode_sample_refs(p->encode, stack, depth, values + columns->first, labels, n_labels);
    else if (has_overflow(p)) {
        add(p->summed[source->sums_in_0 && row->entry & DP_ROW_INHERITED], values, columns->first + columns->n_types);
        p->n_summed++;
    }
}

static void take_row(struct pass *p, const struct dp_row *row)
{
    const struct dp_columns *columns = &p->emission->columns;
    int64_t values[DP_TYPES_MAX];
    scaled(p, row, values);
    if (columns->n_types > DP_VALUES_MAX)
        add_values(p, row, values);
    bool is_left_out = p->emission->is_own && row->entry & DP_ROW_INHERITED;
    if (is_left_out || dp_encode_is_zero(values + columns->first, columns->n_types))
        return;
    if (is_overflow(p, row))
        add(p->summed[row->entry & DP_ROW_INHERITED], values, columns->first + columns->n_types);
    else if (p->folded && !dp_fold_keeps(&p->fold, weight(p, values)))
        add(p->other, values, columns->first + columns->n_types);
    else
        write_row(p, row, values);
}

/* Takes rows in order while least_bytes are left. Returns the number of rows that it took. */
static size_t take_rows(struct pass *p, size_t least_bytes)
{
    const struct dp_emit_source *source = p->source;
    size_t i;
    for (i = 0; i < p->rows->n && !p->locations->err && dp_mem_left() >= least_bytes; i++) {
        const struct dp_row *row = &p->rows->at[i];
        if (i + DP_EMIT_FAR < p->rows->n)
            source->ahead(source->ctx, row + DP_EMIT_FAR, DP_EMIT_FAR);
        if (i + DP_EMIT_NEAR < p->rows->n)
            source->ahead(source->ctx, row + DP_EMIT_NEAR, DP_EMIT_NEAR);
        take_row(p, row);
    }
    return i;
}

enum { CLASSES = 64, ROW_MOST_BYTES = 2048 /* for a row, its locations and strings included: more than most need */ };

static int class_of(const struct pass *p, const struct dp_row *row)
{
    int64_t values[DP_VALUES_MAX], w;
    scaled(p, row, values);
    w = weight(p, values);
    return w > 0 ? 63 - __builtin_clzll((uint64_t)w) : 0;
}

/* Takes the rows from `first` on. The rows of a pass are by record, as add_values needs them. */
static void take_heaviest_first(struct pass *p, size_t first)
{
    size_t sizes[CLASSES] = {0}, n_most = dp_mem_left() / ROW_MOST_BYTES;
    for (size_t i = first; i < p->rows->n; i++)
        sizes[class_of(p, &p->rows->at[i])]++;
    for (int above = CLASSES, least = CLASSES; above; above = least, n_most *= 4) {
        size_t n = 0;
        do
            n += sizes[--least];
        while (least && n + sizes[least - 1] <= n_most);
        p->next_more = 0;
        for (size_t i = first; n && i < p->rows->n && !p->locations->err; i++) {
            int class = class_of(p, &p->rows->at[i]);
            if (class >= least && class < above)
                take_row(p, &p->rows->at[i]);
        }
    }
}

static void write_overflow(struct pass *p)
{
    const struct dp_columns *columns = &p->emission->columns;
    for (unsigned inherited = 0; inherited < 2 && !p->locations->err; inherited++) {
        const int64_t *values = p->summed[inherited] + columns->first;
        const struct dp_row row = {.entry = inherited ? DP_ROW_INHERITED : 0};
        struct dp_encode_label labels[DP_EMIT_LABELS_MAX];
        if (dp_encode_is_zero(values, columns->n_types))
            continue;
        if (!p->overflow)
            p->overflow = dp_locations_frame(p->locations, DP_FRAME_OVERFLOW);
        size_t n = p->source->sums_in_0 ? p->source->labels(p->source->ctx, p->locations, &row, labels) : 0;
        dp_encode_sample_refs(p->encode, &p->overflow, 1, values, labels, n);
    }
}

/* How much is missing in this profile is known only here. */
static void summed_comment(struct pass *p)
{
    dp_stats_add_of(DP_STAT_ROWS_SUMMED, p->emission->kind, p->n_summed);
    uint64_t n = count_of_kind(DP_STAT_ROWS_SUMMED, p->emission->kind);
    if (n)
        count_comment(p->encode, n, dp_stats_words(DP_STAT_ROWS_SUMMED));
    dp_locations_clear_no_memory(p->locations);
}

static void samples(struct pass *p)
{
    const struct dp_columns *columns = &p->emission->columns;
    size_t left = dp_mem_left(), n = p->rows->n;
    if (n <= left / ROW_MOST_BYTES) {
        take_rows(p, 0);
    } else {
        p->reserve = dp_mem_map(RESERVE_BYTES);
        size_t n_taken = take_rows(p, left / 4 * 3);
        if (n_taken < n)
            take_heaviest_first(p, n_taken);
        release_reserve(p);
    }
    if (p->folded && !dp_encode_is_zero(p->other + columns->first, columns->n_types)) {
        uint32_t other = dp_locations_frame(p->locations, DP_FRAME_OTHER);
        dp_encode_sample_refs(p->encode, &other, 1, p->other + columns->first, NULL, 0);
    }
    write_overflow(p);
    summed_comment(p);
}

static int profile(struct pass *p)
{
    plan(p);
    int err = dp_locations_begin(p->locations, p->encode, &p->emission->locations);
    if (err)
        return err;
    header(p);
    comments(p);
    samples(p);
    return dp_locations_end(p->locations);
}

int dp_emit(const struct dp_emission *emission, struct dp_report_write_buffers *buffers,
            const struct dp_emit_source *source, dp_pprof_write_fn fn, void *ctx)
{
    struct pass p = {.emission = emission,
                     .rows = &buffers->rows,
                     .source = source,
                     .n_summed = source->sums_in_0 ? buffers->rows.n_summed : 0};
    p.locations = &buffers->locations;
    p.encode = dp_report_write_buffers_open(buffers, emission->raw, fn, ctx);
    return dp_report_write_buffers_close(buffers, emission->raw, p.encode ? profile(&p) : -ENOMEM);
}
