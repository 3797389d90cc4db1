/* SPDX-License-Identifier: MIT */
/*
 * host/records/runtime_source.c - writes profiles of a runtime's records, whose stacks consist of values instead of
 * frame ids. Each distinct value has a number, and a stack is kept as numbers. A value is resolved once per profile,
 * and its frame is kept for the next one. An address becomes an ordinary frame, so mappings and names come from the
 * same caches; values that the runtime names itself are asked for in each profile.
 */
#include "host/records/runtime_source.h"

#include "base/clock.h"
#include "host/records/scale.h"
#include "host/records/values.h"
#include "host/report/consumer.h"
#include "host/symbols/loader_sync.h"
#include "host/symbols/name_set.h"
#include "host/unwind/stack.h"

#include <errno.h>
#include <string.h>

#define RUNTIME_FRAME ((uintptr_t)1 << (8 * sizeof(uintptr_t) - 1)) /* the top bit: not an address */

/* What a consumer keeps between dumps. */
struct memory {
    struct dp_dump_memory functions; /* first: a consumer has its address */
    struct dp_records *records;
    struct dp_records_values values;
};

struct runtime_source {
    struct dp_consumer *consumer;
    struct memory *memory;
    const struct dp_records_dump *dump;
    dp_object_id object;            /* object of the last address */
    int64_t bytes;                  /* the index of "bytes" in the profile; 0: not written yet */
    uint32_t numbers[DP_STACK_MAX]; /* numbers of the values of a stack that is not kept */
    struct dp_records_scale scale;
};

/* ---- values to locations ---------------------------------------------------------------------------------------- */

/* As dp_frame_intern, but asks the loader only if the address is in another object than the last one. */
static dp_frame_id intern(struct runtime_source *h, uintptr_t pc)
{
    const struct dp_object *o = h->object ? dp_object_get(h->object) : NULL;
    if (o && pc >= o->start && pc < o->end && !dp_load_relaxed(&o->retired))
        return dp_frame_intern_in(h->object, pc);
    dp_frame_id id = dp_frame_intern(pc);
    if (id)
        h->object = dp_frame_get(id)->object;
    return id;
}

static uint32_t resolve(struct runtime_source *h, struct dp_locations *l, const struct dp_records_value *v)
{
    struct deltaprof_frame_name name = {0};
    uintptr_t value = v->value, pc = value ? value - 1 : 0;
    bool runtime = value & RUNTIME_FRAME;
    if (h->consumer->name_fn) {
        h->consumer->name_fn(h->consumer->name_ctx, value, &name);
        if (name.function)
            return dp_locations_named(l, value, &name);
        pc = value;
    }
    /* only frames of value - 1 are kept */
    dp_frame_id id = runtime ? 0 : pc == value || !v->frame ? intern(h, pc) : v->frame;
    return id ? dp_locations_frame(l, id) : dp_locations_named(l, runtime ? value : pc, &name);
}

static uint32_t ref_of(struct runtime_source *h, struct dp_locations *l, uint32_t number)
{
    struct dp_records_values *values = &h->memory->values;
    const struct dp_records_value *v = &values->all.at[number];
    uint32_t ref = values->refs.at[number];
    if (ref)
        return ref;
    ref = v->line.is_known && !h->consumer->name_fn ? dp_locations_line(l, &v->line, v->value - 1) : resolve(h, l, v);
    if (ref && dp_records_values_resolve(values, number, ref) && !l->err)
        l->err = -ENOMEM;
    return ref;
}

#define MET_MAX 64

/*
 * Makes the locations of all frames of a stack that have no line yet. Together, because the symbols lock is then locked
 * only once. Frames whose object is known are kept for later profiles, and so are their lines. ref_of makes the other
 * locations.
 */
static void make_locations(struct runtime_source *h, struct dp_locations *l, const uint32_t *numbers, size_t n,
                           uint32_t *refs)
{
    struct dp_records_values *values = &h->memory->values;
    struct dp_symbols_place lines[MET_MAX];
    dp_frame_id ids[MET_MAX];
    size_t positions[MET_MAX], n_ids = 0, n_new = 0;
    uint32_t met[MET_MAX];
    for (size_t i = 0; i < n && n_ids < MET_MAX; i++) {
        struct dp_records_value *v = &values->all.at[numbers[i]];
        if (refs[i] || v->line.is_known || !v->value || v->value & RUNTIME_FRAME ||
            !(ids[n_ids] = v->frame ? v->frame : intern(h, v->value - 1)))
            continue;
        n_new += !v->frame;
        positions[n_ids++] = i;
    }
    if (!n_ids)
        return;
    dp_locations_stack(l, ids, n_ids, met);
    if (n_new)
        dp_locations_lines(l, ids, n_ids, lines);
    for (size_t k = 0; k < n_ids && met[k]; k++) {
        uint32_t number = numbers[positions[k]];
        struct dp_records_value *v = &values->all.at[number];
        if (values->refs.at[number] || !dp_records_values_resolve(values, number, met[k]))
            refs[positions[k]] = met[k];
        if (!v->frame && dp_frame_get(ids[k])->object) {
            v->frame = ids[k];
            v->line = lines[k];
        }
    }
}

/*
 * The numbers of the row's stack, of *n values; NULL: no memory. A kept stack has the depth with which it was kept, so
 * if a runtime reuses an id wrongly, its profile is wrong, but no memory out of bounds is read.
 */
static const uint32_t *numbers_of(struct runtime_source *h, const struct dp_row *row, const uintptr_t *stack,
                                  size_t *depth)
{
    struct dp_records_values *values = &h->memory->values;
    uint32_t *kept = dp_records_note(h->memory->records, row);
    size_t n = *depth;
    if (*kept)
        return dp_records_values_use(values, *kept, depth);
    for (size_t i = 0; i < n; i++)
        if ((h->numbers[i] = dp_records_values_number(values, stack[i])) == DP_VALUES_NONE)
            return NULL;
    if (n)
        *kept = dp_records_values_keep(values, h->numbers, n, h->consumer->memory_bytes / 16);
    return h->numbers;
}

/*
 * Prefetches what the new locations of a stack are made of, in three steps: each reads what the one before has asked
 * for. Nearly all of it is not in the processor's caches, since a profile needs it once.
 */
static void prefetch_new(struct runtime_source *h, const struct dp_locations *l, const uint32_t *numbers, size_t n,
                         const uint32_t *refs)
{
    const struct dp_records_values *values = &h->memory->values;
    const struct dp_symbols_function *functions[DP_STACK_MAX];
    uint32_t new[DP_STACK_MAX];
    size_t n_new = 0, n_functions = 0;
    for (size_t i = 0; i < n; i++) {
        __builtin_prefetch(refs[i] ? (const void *)refs : &values->all.at[numbers[i]]);
        new[n_new] = numbers[i];
        n_new += !refs[i];
    }
    for (size_t i = 0; i < n_new; i++) {
        const struct dp_symbols_place *line = &values->all.at[new[i]].line;
        if (!line->is_known || dp_line_functions_has(&l->functions, line->function))
            continue;
        __builtin_prefetch(functions[n_functions++] = dp_symbols_function(line->function));
    }
    for (size_t i = 0; i < n_functions; i++) {
        const char *name = (const char *)dp_symbols_name_of(functions[i]->name);
        __builtin_prefetch(name);
        __builtin_prefetch(name + 63);
    }
}

static void ahead(void *ctx, const struct dp_row *row, int distance)
{
    struct runtime_source *h = ctx;
    const uint32_t *kept = dp_records_note(h->memory->records, row);
    const void *at;
    size_t depth, n_bytes;
    if (distance == DP_EMIT_FAR) {
        __builtin_prefetch(kept);
        __builtin_prefetch(h->dump->heap ? (const void *)&h->dump->heap[row->id] : &h->dump->block[row->id]);
        return;
    }
    const uintptr_t *stack;
    dp_records_dump_stack(h->dump, row->id, &stack, &depth);
    at = *kept ? (const void *)dp_records_values_stack(&h->memory->values, *kept) : stack;
    n_bytes = depth * (*kept ? sizeof(uint32_t) : sizeof(uintptr_t));
    for (size_t i = 0; i < n_bytes && i < 512; i += 64)
        __builtin_prefetch((const char *)at + i);
}

static size_t stack(void *ctx, struct dp_locations *l, const struct dp_row *row, uint32_t *refs)
{
    struct runtime_source *h = ctx;
    const uintptr_t *values;
    size_t depth;
    dp_records_dump_stack(h->dump, row->id, &values, &depth);
    bool cut = depth > h->dump->depth;
    size_t n = cut ? h->dump->depth : depth;
    const uint32_t *numbers = numbers_of(h, row, values, &n);
    if (!numbers) {
        l->err = l->err ? l->err : -ENOMEM;
        return 0;
    }
    bool all = dp_records_values_refs(&h->memory->values, numbers, n, refs);
    if (!all && !h->consumer->name_fn) {
        prefetch_new(h, l, numbers, n, refs);
        make_locations(h, l, numbers, n, refs);
    }
    for (size_t i = 0; !all && i < n; i++)
        if (!refs[i])
            refs[i] = ref_of(h, l, numbers[i]);
    if (cut)
        refs[n++] = dp_locations_frame(l, DP_FRAME_TRUNCATED);
    if (!n)
        refs[n++] = dp_locations_frame(l, DP_FRAME_NO_STACK);
    return n;
}

static size_t labels(void *ctx, struct dp_locations *l, const struct dp_row *row, struct dp_encode_label *out)
{
    struct runtime_source *h = ctx;
    int64_t size_bytes = dp_records_size(h->memory->records, row);
    if (!size_bytes)
        return 0;
    if (!h->bytes)
        h->bytes = dp_encode_string(l->encode, "bytes", 5);
    *out = (struct dp_encode_label){.key = h->bytes, .num = size_bytes, .num_unit = h->bytes};
    return 1;
}

static void scale(void *ctx, int64_t *values)
{
    struct runtime_source *h = ctx;
    dp_records_scale_heap(&h->scale, &values[0], &values[1]);
    dp_records_scale_heap(&h->scale, &values[2], &values[3]);
}

/* ---- one dump --------------------------------------------------------------------------------------------------- */

static int check(const struct dp_consumer *c, const struct dp_records_dump *dump)
{
    bool takes_heap = dp_kind_has_levels(c->kind), takes_block = dp_kind_table[c->kind].has_locks;
    return c->source == DP_SOURCE_HOOKS || (dump->heap && !takes_heap) || (dump->block && !takes_block) ? -EINVAL : 0;
}

static void commit(struct dp_dump_memory *dumps, const struct dp_rows *rows)
{
    dp_records_commit(((struct memory *)dumps)->records, rows);
}

static void free_memory(struct dp_dump_memory *dumps)
{
    struct memory *memory = (struct memory *)dumps;
    dp_records_free(memory->records);
    dp_records_values_fini(&memory->values);
    dp_mem_unmap(memory, sizeof *memory);
}

/* NULL: there is none for it. */
static struct memory *memory_of(struct dp_consumer *c)
{
    if (c->dumps)
        return (struct memory *)c->dumps;
    struct memory *memory = dp_mem_map(sizeof *memory);
    struct dp_records *records = memory ? dp_records_new(c->memory_bytes / 8) : NULL;
    if (!records) {
        dp_mem_unmap(memory, sizeof *memory);
        return NULL;
    }
    *memory = (struct memory){.functions = {commit, free_memory}, .records = records};
    c->dumps = &memory->functions;
    return memory;
}

/* The dump becomes the baseline: its allocs are not delivered, but its in-use values are. */
static void skip(struct dp_consumer *c)
{
    struct dp_rows *rows = &c->buffers->rows;
    c->dumps->commit(c->dumps, rows);
    for (size_t i = 0; i < rows->n; i++)
        rows->at[i].values[0] = rows->at[i].values[1] = 0;
}

static int write_dump(struct dp_consumer *c, const struct dp_records_dump *dump, int64_t rate_bytes,
                      dp_pprof_write_fn fn, void *ctx)
{
    bool heap = dp_kind_has_levels(c->kind);
    struct dp_emission e = {.kind = c->kind, .period = heap && rate_bytes > 1 ? rate_bytes : 1};
    struct runtime_source h = {.consumer = c, .dump = dump, .scale = {.rate_bytes = rate_bytes}};
    struct dp_emit_source source = {stack, ahead, labels, &h, false, heap && rate_bytes > 1 ? scale : NULL};
    struct dp_symbols_files files = {0};
    e.locations.files = &files;
    dp_columns_choose(c->kind, c->types, &e.columns);
    if (!(h.memory = memory_of(c)))
        return -ENOMEM;
    c->to = dp_report_now();
    dp_objects_recheck();
    dp_symbols_loader_sync();
    int err = dp_consumer_get_buffers(c);
    if (!err)
        err = dp_records_subtract(h.memory->records, dump, &c->buffers->rows);
    if (err)
        return err;
    if (c->skip_next || !fn) {
        skip(c);
        c->skip_next = false;
    }
    if (!fn)
        return 0;
    dp_records_values_begin(&h.memory->values, dp_symbols_answers(c->symbolize));
    err = dp_consumer_emit(c, 0, &e, &source, fn, ctx, NULL);
    dp_symbols_close(&files);
    if (err != -ECANCELED && dp_records_values_end(&h.memory->values, c->memory_bytes / 32))
        dp_records_clear_notes(h.memory->records);
    return err;
}

int dp_records_consumer_write_dump(struct dp_consumer *c, struct dp_records_dump dump, int64_t rate_bytes,
                                   dp_pprof_write_fn fn, void *ctx)
{
    dump.mixed_sizes = c->mixed_sizes;
    dump.depth = c->depth;
    dp_consumer_lock(c, true);
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
            dp_consumer_put_buffers(c);
    }
    dp_consumer_unlock(c);
    return err;
}

void dp_records_consumer_reset_ids(struct dp_consumer *c)
{
    dp_consumer_lock(c, true);
    if (c->dumps)
        dp_records_reset_ids(((struct memory *)c->dumps)->records);
    dp_consumer_unlock(c);
}
