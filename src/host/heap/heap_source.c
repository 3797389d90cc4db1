/* SPDX-License-Identifier: MIT */
/*
 * host/heap/heap_source.c - reports of the heap: what is in use split by age, lifetimes of blocks, resident memory. A
 * row is {alloc_objects, alloc_space, inuse_objects, inuse_space}.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stats.h"
#include "base/text.h"
#include "host/heap/age.h"
#include "host/heap/heap.h"
#include "host/heap/waste.h"
#include "host/heap/peak_copy.h"
#include "host/report/consumer.h"
#include "host/report/kind_source.h"
#include "host/heap/inherited.h"
#include "host/heap/lifetime.h"
#include "host/heap/live_blocks.h"

#include <deltaprof/heap.h>
#include <errno.h>
#include <string.h>

static const struct dp_delta_rules rules = {
    .kind = DP_KIND_HEAP, .has_levels = true, .read_inherited = dp_heap_inherited_read};

static const struct dp_delta_rules peak_rules = {.kind = DP_KIND_HEAP,
                                                 .has_levels = true,
                                                 .read_level = dp_heap_peak_copy_read,
                                                 .read_inherited = dp_heap_inherited_read};

/* What a write adds to the rows: lifetimes with `age`, and behind them waste with `types=waste`. */
struct heap_more {
    struct dp_heap_age_lives lives;
    struct dp_heap_waste_rows waste;
    bool has_waste;
    uint8_t n_waste; /* its values in a row, and where they begin */
    size_t waste_at;
};
_Static_assert(sizeof(struct dp_heap_age_baseline) <= sizeof(struct dp_kind_state) &&
                   sizeof(struct heap_more) <= sizeof(struct dp_kind_state),
               "the state of a consumer has room");

/* The most that is read where the program waits for its end. */
#define ENDING_READ_MOST ((int64_t)64 << 20)

static struct heap_more *more_of(struct dp_kind_state *more)
{
    return (struct heap_more *)(void *)more->bytes;
}

static struct dp_heap_age_lives *lives_of(struct dp_kind_state *more)
{
    return &more_of(more)->lives;
}

static struct dp_heap_age_baseline *delivered_of(struct dp_kind_state *delivered)
{
    return (struct dp_heap_age_baseline *)(void *)delivered->bytes;
}

static int64_t period(void)
{
    return dp_heap_rate();
}

static bool peak_begin(int64_t *wall_ns)
{
    dp_heap_peak_copy_bytes(wall_ns);
    return dp_heap_peak_copy_begin();
}

static bool is_by_age(const struct dp_consumer *c)
{
    return c->age && dp_heap_live_blocks_has_births();
}

static void prepare(const struct dp_consumer *c, unsigned flags, struct dp_emission *e)
{
    e->tells_allocated = true;
    e->allocated_bytes = (int64_t)dp_heap_bytes_seen();
    if (c->types == DP_TYPES_IDLE) /* before memory is looked at, which counts as used then */
        e->idle_unknown = dp_resident_idle_read(&e->idle) != 0;
    if (flags & DP_WRITE_RESIDENT) /* on failure these comments are left out */
        e->has_parts = !dp_resident_read(&e->resident) && dp_columns_have_last(DP_KIND_HEAP, &e->columns) &&
                       !dp_resident_divide(&e->resident, dp_report_stack_bytes(), &e->parts);
    if (is_by_age(c) && dp_heap_lifetime_is_mapped() &&
        dp_columns_add_group(DP_KIND_HEAP, "freed_objects", DP_AGE_VALUES, &e->columns) && !e->default_type)
        e->default_type = "inuse_space";
}

/* Why pages cannot be looked at: a negative errno. */
static const char *why_unknown(int err)
{
    switch (err) {
    case -EACCES:
    case -EPERM:
        return "the kernel forbids the process to read its /proc/self/pagemap, as after it changed its user";
    case -ENOMEM:
        return "there was no memory to look at pages";
    default:
        return "/proc/self/pagemap cannot be read";
    }
}

static void log_unknown(int err)
{
    static struct dp_log_cause cause;
    if (err)
        dp_log_once(&cause, -err, "profiles are without types=waste: %s", why_unknown(err));
}

/* The types are added here, if they are known now. The pages of another process are not looked at. aged_ns: as in
 * dp_heap_waste_read. */
static void add_waste(struct dp_consumer *c, unsigned flags, int64_t aged_ns, struct dp_emission *e)
{
    struct heap_more *more = more_of(&c->more);
    bool is_ending = flags & DP_WRITE_NO_WAIT;
    int64_t most = is_ending ? ENDING_READ_MOST : INT64_MAX;
    more->waste_at = e->columns.n_types;
    if (flags & DP_WRITE_TABLES) {
        e->waste_unknown = "the process had ended, or did not answer: another one made this profile from its tables";
        return;
    }
    int err = dp_heap_waste_read(&c->buffers->rows, dp_report_stack_bytes(), most, aged_ns, !is_ending, &more->waste,
                                 &e->free, &e->unread_bytes);
    if (err)
        e->waste_unknown = why_unknown(err);
    if (!is_ending)
        log_unknown(err);
    size_t n = e->idle.has_pages ? DP_HEAP_WASTE_VALUES : DP_HEAP_WASTE_IDLE;
    more->has_waste = !err && dp_columns_add_group(DP_KIND_HEAP, "resident_space", n, &e->columns);
    more->n_waste = (uint8_t)n;
    e->has_free = more->has_waste;
    if (more->has_waste && !e->default_type)
        e->default_type = "inuse_space";
}

/* Divides the rows by age. Returns the time of that; 0: no memory, and the rows are as they were. */
static int64_t split_by_age(struct dp_consumer *c, unsigned flags)
{
    struct dp_heap_age_lives *lives = lives_of(&c->more);
    struct dp_heap_age_baseline *base = flags & DP_WRITE_CUMULATIVE ? NULL : delivered_of(&c->delivered);
    int64_t now_ns = dp_clock_ns();
    if (!dp_heap_age_split(&c->buffers->rows, base, lives, now_ns))
        return now_ns;
    dp_vec_clear(lives); /* they come with a later profile */
    dp_stats_add(DP_STAT_AGES_LOST, 1);
    return 0;
}

static void add_more(struct dp_consumer *c, unsigned flags, struct dp_emission *e)
{
    int64_t aged_ns = is_by_age(c) ? split_by_age(c, flags) : 0;
    if (c->types >= DP_TYPES_WASTE)
        add_waste(c, flags, aged_ns, e);
}

static int skip(struct dp_consumer *c)
{
    if (c->types == DP_TYPES_IDLE)
        dp_resident_idle_begin();
    return c->age ? dp_heap_age_read_lives(delivered_of(&c->delivered), lives_of(&c->more)) : 0;
}

static void commit(struct dp_kind_state *delivered, const struct dp_kind_state *more)
{
    dp_heap_age_commit(delivered_of(delivered), &((const struct heap_more *)(const void *)more->bytes)->lives);
}

static void restart(struct dp_kind_state *delivered)
{
    dp_vec_clear(delivered_of(delivered));
}

static void free_more(struct dp_kind_state *more)
{
    dp_vec_fini(lives_of(more));
    dp_vec_fini(&more_of(more)->waste);
    more_of(more)->has_waste = false;
}

static void free_delivered(struct dp_kind_state *delivered)
{
    dp_vec_fini(delivered_of(delivered));
}

/* Both are by record. */
static void add_waste_values(const struct dp_heap_waste_rows *waste, const struct dp_row *row, int64_t *values,
                             size_t n_values)
{
    size_t first = 0, end = waste->n;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (waste->at[middle].id < row->id)
            first = middle + 1;
        else
            end = middle;
    }
    for (size_t i = first; i < waste->n && waste->at[i].id == row->id; i++)
        if (waste->at[i].entry == row->entry)
            memcpy(values, waste->at[i].values, n_values * sizeof *values);
}

/* The lifetimes stand in the row that has no age. Rows and lives are both by record. */
static void add_values(const struct dp_kind_state *state, size_t *next, const struct dp_row *row, int64_t *values)
{
    const struct heap_more *more = (const struct heap_more *)(const void *)state->bytes;
    const struct dp_heap_age_lives *lives = &more->lives;
    bool has_lives = !more->has_waste || more->waste_at > DP_VALUES_MAX;
    memset(values + DP_VALUES_MAX, 0, (DP_TYPES_MAX - DP_VALUES_MAX) * sizeof *values);
    while (*next < lives->n && lives->at[*next].id < row->id)
        ++*next;
    if (has_lives && *next < lives->n && lives->at[*next].id == row->id && !row->entry)
        memcpy(values + DP_VALUES_MAX, lives->at[*next].values, DP_AGE_VALUES * sizeof *values);
    if (more->has_waste)
        add_waste_values(&more->waste, row, values + more->waste_at, more->n_waste);
}

static size_t text_values(const int64_t *v, const char *begin, const char *end, char *text, size_t n_bytes)
{
    return dp_text_format(text, n_bytes, "%s%lld: %lld [%lld: %lld] @%s", begin, (long long)v[2], (long long)v[3],
                          (long long)v[0], (long long)v[1], end);
}

static size_t text_header(const struct dp_rows *rows, char *text, size_t n_bytes)
{
    int64_t sum[DP_VALUES_MAX] = {0};
    for (size_t i = 0; i < rows->n; i++)
        for (int v = 0; v < DP_VALUES_MAX; v++)
            sum[v] += rows->at[i].values[v];
    return text_values(sum, "heap profile: ", " heap_v2/1\n", text, n_bytes);
}

static size_t text_row(const int64_t *values, char *text, size_t n_bytes)
{
    return text_values(values, "", "", text, n_bytes);
}

/*
 * The table knows where blocks begin, so it is asked for each begin that a block with this address inside may have. A
 * large block begins a page, or, as glibc's mmap gives it, 16 bytes behind one.
 */
static bool block_at(uintptr_t address, dp_record_id *record, uint64_t *n_bytes)
{
    enum { ALIGNED = 16, NEAR_BYTES = 4096, FAR_PAGES = 64 };
    uintptr_t at = address & ~(uintptr_t)(ALIGNED - 1), page = dp_page_floor(address);
    for (unsigned i = 0; i < NEAR_BYTES / ALIGNED + 2 * FAR_PAGES; i++) {
        unsigned far = i - NEAR_BYTES / ALIGNED;
        struct dp_heap_live_block entry;
        uintptr_t begin = i < NEAR_BYTES / ALIGNED ? at - i * (uintptr_t)ALIGNED
                                                   : page - far / 2 * dp_page_bytes() + far % 2 * (uintptr_t)ALIGNED;
        if (begin > address || !dp_heap_live_blocks_find(DELTAPROF_KEY(0, begin), &entry) ||
            address - begin >= entry.bytes / entry.objects)
            continue;
        *record = entry.record;
        *n_bytes = entry.bytes / entry.objects;
        return entry.record < dp_table_count(DP_KIND_HEAP);
    }
    return false;
}

const struct dp_kind_source dp_heap_source = {
    .block_at = block_at,
    .rules = &rules,
    .peak_rules = &peak_rules,
    .peak_begin = peak_begin,
    .peak_end = dp_heap_peak_copy_end,
    .period = period,
    .prepare = prepare,
    .add_more = add_more,
    .skip = skip,
    .commit = commit,
    .restart = restart,
    .free_more = free_more,
    .free_delivered = free_delivered,
    .add_values = add_values,
    .age = dp_heap_age_of_row,
    .text_header = text_header,
    .text_row = text_row,
    .text_end = "\nMAPPED_LIBRARIES:\n",
};
