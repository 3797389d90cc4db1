/* SPDX-License-Identifier: MIT */
/*
 * report/handed.c - stacks of values instead of frame ids: a value is looked up once a profile, in a hash table that
 * grows with the distinct values of the rows written. An address becomes a frame like any of ours, so mappings and
 * names come from the same caches; what the runtime names itself is taken as it is.
 */
#include "report/handed.h"

#include "base/clock.h"
#include "report/consumer.h"

#include <errno.h>
#include <string.h>

#define RUNTIME_FRAME ((uintptr_t)1 << (8 * sizeof(uintptr_t) - 1)) /* the top bit: not an address */

struct seen {
    uintptr_t value;
    uint32_t ref; /* dp_encode_ref of its location; 0: free */
};

struct handed {
    const struct dp_consumer *consumer;
    const struct dp_dump *dump;
    struct seen *slots;
    size_t n_slots, n;
    unsigned shift;      /* 64 - log2 of n_slots */
    dp_object_id object; /* of the last address */
};

/* ---- values to locations ---------------------------------------------------------------------------------------- */

/* As dp_frame_intern, which asks the loader for the object: neighbours are mostly of the same one. */
static dp_frame_id intern(struct handed *h, uintptr_t pc)
{
    const struct dp_object *o = h->object ? dp_object_get(h->object) : NULL;
    if (o && pc >= o->start && pc < o->end && !dp_load_relaxed(&o->retired))
        return dp_frame_intern_in(h->object, pc);
    dp_frame_id id = dp_frame_intern(pc);
    if (id)
        h->object = dp_frame_get(id)->object;
    return id;
}

static uint32_t resolve(struct handed *h, struct dp_locations *l, uintptr_t value)
{
    struct deltaprof_frame_name name = {0};
    uintptr_t pc = value ? value - 1 : 0;
    if (h->consumer->name_fn) {
        h->consumer->name_fn(h->consumer->name_ctx, value, &name);
        if (name.function)
            return dp_locations_named(l, value, &name);
        pc = value;
    }
    dp_frame_id id = value & RUNTIME_FRAME ? 0 : intern(h, pc);
    return id ? dp_locations_frame(l, id) : dp_locations_named(l, value & RUNTIME_FRAME ? value : pc, &name);
}

static size_t home_of(const struct handed *h, uintptr_t value)
{
    return (size_t)(value * 0x9E3779B97F4A7C15u >> h->shift);
}

static struct seen *slot_of(const struct handed *h, uintptr_t value)
{
    size_t i = home_of(h, value);
    while (h->slots[i].ref && h->slots[i].value != value)
        i = (i + 1) & (h->n_slots - 1);
    return &h->slots[i];
}

static int grow(struct handed *h)
{
    struct handed old = *h;
    h->n_slots = old.n_slots ? old.n_slots * 2 : 4096;
    h->shift = old.n_slots ? old.shift - 1 : 64 - 12;
    h->slots = dp_mem_map(h->n_slots * sizeof *h->slots);
    if (!h->slots) {
        *h = old;
        return -ENOMEM;
    }
    for (size_t i = 0; i < old.n_slots; i++)
        if (old.slots[i].ref)
            *slot_of(h, old.slots[i].value) = old.slots[i];
    dp_mem_unmap(old.slots, old.n_slots * sizeof *old.slots);
    return 0;
}

static uint32_t ref_of(struct handed *h, struct dp_locations *l, uintptr_t value)
{
    if (h->n * 4 >= h->n_slots && grow(h)) {
        l->error = l->error ? l->error : -ENOMEM;
        return 0;
    }
    struct seen *seen = slot_of(h, value);
    if (__builtin_expect(!seen->ref, 0)) {
        *seen = (struct seen){value, resolve(h, l, value)};
        h->n += seen->ref != 0;
    }
    return seen->ref;
}

/*
 * Refs of values that lie where they hash to, as most do; 0 for the others. Without a branch, so that the processor has
 * many slots on their way from memory at a time.
 */
static void guess(const struct handed *h, const uintptr_t *values, size_t n, uint32_t *refs)
{
    const struct seen *slots = h->slots;
    unsigned shift = h->shift;
    if (!slots) {
        memset(refs, 0, n * sizeof *refs);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const struct seen *seen = &slots[(size_t)(values[i] * 0x9E3779B97F4A7C15u >> shift)];
        refs[i] = seen->ref & -(uint32_t)(seen->value == values[i]);
    }
}

static void ahead(void *ctx, const struct dp_row *row, int distance)
{
    struct handed *h = ctx;
    const uintptr_t *values;
    size_t depth;
    if (distance != DP_EMIT_NEAR)
        return;
    dp_dump_stack(h->dump, row->id, &values, &depth);
    for (size_t i = 0; i < depth && i < 64; i += 8)
        __builtin_prefetch(values + i);
}

static size_t stack(void *ctx, struct dp_locations *l, const struct dp_row *row, uint32_t *refs)
{
    struct handed *h = ctx;
    const uintptr_t *values;
    size_t depth;
    dp_dump_stack(h->dump, row->id, &values, &depth);
    size_t n = depth < h->dump->depth ? depth : h->dump->depth;
    guess(h, values, n, refs);
    for (size_t i = 0; i < n; i++)
        if (__builtin_expect(!refs[i], 0))
            refs[i] = ref_of(h, l, values[i]);
    if (n < depth)
        refs[n++] = dp_locations_frame(l, DP_FRAME_TRUNCATED);
    if (!n)
        refs[n++] = dp_locations_frame(l, DP_FRAME_NO_STACK);
    return n;
}

static size_t labels(void *ctx, struct dp_encode *e, const struct dp_row *row, struct dp_encode_label *out)
{
    if (!row->size_bytes)
        return 0;
    *out = (struct dp_encode_label){
        .key = dp_encode_string(e, "bytes", 5), .num = row->size_bytes, .num_unit = dp_encode_string(e, "bytes", 5)};
    return 1;
}

/* ---- one dump --------------------------------------------------------------------------------------------------- */

static int check(const struct dp_consumer *c, const struct dp_dump *dump)
{
    if (c->source == DP_SOURCE_HOOKS || (c->kind == DELTAPROF_HEAP ? dump->block != NULL : dump->heap != NULL))
        return -EINVAL;
    return 0;
}

/* The dump becomes the baseline: its allocs are not delivered here, what is in use is. */
static void skip(struct dp_consumer *c)
{
    dp_records_commit(c->records, &c->rows);
    for (size_t i = 0; i < c->rows.n; i++)
        c->rows.at[i].values[0] = c->rows.at[i].values[1] = 0;
}

static int write_dump(struct dp_consumer *c, const struct dp_dump *dump, int64_t rate_bytes, dp_write_fn fn, void *ctx)
{
    bool heap = c->kind == DELTAPROF_HEAP;
    struct dp_emission e = {.period = heap && rate_bytes > 1 ? rate_bytes : 1,
                            .scale_rate = heap && rate_bytes > 1 ? rate_bytes : 0};
    struct handed h = {.consumer = c, .dump = dump};
    struct dp_emit_source source = {stack, ahead, labels, &h};
    dp_kind_describe(c->kind, c->types, &e.kind);
    if (!c->records && !(c->records = dp_records_new(c->records_budget_bytes)))
        return -ENOMEM;
    c->to = (struct dp_window_edge){dp_clock_wall_ns(), dp_clock_ns()};
    int err = dp_records_subtract(c->records, dump, &c->rows);
    if (err)
        return err;
    if (c->skip_next || !fn) {
        skip(c);
        c->skip_next = false;
    }
    if (fn)
        err = dp_consumer_emit(c, 0, &e, &source, fn, ctx, NULL);
    dp_mem_unmap(h.slots, h.n_slots * sizeof *h.slots);
    return err;
}

int dp_consumer_write_dump(struct dp_consumer *c, struct dp_dump dump, int64_t rate_bytes, dp_write_fn fn, void *ctx)
{
    dump.mixed_sizes = c->mixed_sizes;
    dump.depth = c->depth;
    dp_consumer_enter(c, true);
    int err = c->pending ? -EBUSY : check(c, &dump);
    if (!err) {
        c->source = DP_SOURCE_RECORDS;
        err = write_dump(c, &dump, rate_bytes, fn, ctx);
        if (err == -ECANCELED)
            return err;
        if (!fn && !err)
            c->from = c->to;
        c->pending = !err && fn;
        if (!c->pending)
            dp_consumer_drop_rows(c);
    }
    dp_consumer_leave(c);
    return err;
}
