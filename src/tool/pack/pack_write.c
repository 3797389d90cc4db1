/* SPDX-License-Identifier: MIT */
/*
 * tool/pack/pack_write.c - the numbers and texts of a pack, and the order in which they are written.
 */
#include "tool/pack/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int dp_pack_put(struct dp_pack *pack, uint64_t n)
{
    uint8_t *to = dp_vec_room(&pack->bytes, 10);
    if (!to)
        return -ENOMEM;
    do {
        *to++ = (uint8_t)(n & 127) | (n > 127 ? 128 : 0);
        pack->bytes.n++;
        n >>= 7;
    } while (n);
    return 0;
}

int dp_pack_put_signed(struct dp_pack *pack, int64_t n)
{
    return dp_pack_put(pack, (uint64_t)n << 1 ^ (uint64_t)(n >> 63));
}

int dp_pack_intern(struct dp_strings *set, const void *bytes, size_t n_bytes, uint32_t *number)
{
    if (!dp_strings_count(set) && dp_strings_add(set, "", 0) == DP_STRINGS_NONE)
        return -ENOMEM;
    *number = dp_strings_add(set, bytes, n_bytes);
    return *number == DP_STRINGS_NONE ? -ENOMEM : 0;
}

int dp_pack_intern_text(struct dp_pack *pack, const char *text, uint32_t *number)
{
    return dp_pack_intern(&pack->strings, text ? text : "", text ? strlen(text) : 0, number);
}

static int by_time(const void *a, const void *b)
{
    const struct dp_pack_tick *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->end_us != y->end_us)
        return x->end_us < y->end_us ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static int put_strings(struct dp_pack *pack)
{
    int err = dp_pack_put(pack, dp_strings_count(&pack->strings));
    for (uint32_t i = 0; i < dp_strings_count(&pack->strings) && !err; i++) {
        size_t n_bytes = dp_strings_size(&pack->strings, i);
        err = dp_pack_put(pack, n_bytes);
        uint8_t *to = err ? NULL : dp_vec_room(&pack->bytes, n_bytes);
        if (!to)
            return -ENOMEM;
        memcpy(to, dp_strings_at(&pack->strings, i), n_bytes);
        pack->bytes.n += n_bytes;
    }
    return err;
}

/* Numbers of a set's members, each of `n` numbers, from the second member on: the first is the empty one. */
static int put_numbers(struct dp_pack *pack, const struct dp_strings *set, bool are_nodes)
{
    size_t n_all = dp_strings_count(set);
    int err = dp_pack_put(pack, n_all ? n_all - 1 : 0);
    for (uint32_t i = 1; i < n_all && !err; i++) {
        uint32_t numbers[64];
        size_t n = dp_strings_size(set, i) / sizeof *numbers;
        memcpy(numbers, dp_strings_at(set, i), n * sizeof *numbers);
        if (are_nodes)
            numbers[0] = i - numbers[0];
        for (size_t k = 0; k < n && !err; k++)
            err = dp_pack_put(pack, numbers[k]);
    }
    return err;
}

/* Label sets begin with the empty one; each says how many labels it has. */
static int put_label_sets(struct dp_pack *pack)
{
    const struct dp_strings *set = &pack->label_sets;
    int err = dp_pack_put(pack, dp_strings_count(set));
    for (uint32_t i = 0; i < dp_strings_count(set) && !err; i++) {
        uint32_t numbers[64];
        size_t n = dp_strings_size(set, i) / sizeof *numbers;
        memcpy(numbers, dp_strings_at(set, i), n * sizeof *numbers);
        err = dp_pack_put(pack, n / 2);
        for (size_t k = 0; k < n && !err; k++)
            err = dp_pack_put(pack, numbers[k]);
    }
    return err;
}

static int put_types(struct dp_pack *pack, const struct dp_model *m)
{
    int err = dp_pack_put(pack, m->types.n);
    for (size_t i = 0; i < m->types.n && !err; i++) {
        uint32_t type, unit;
        err = dp_pack_intern_text(pack, dp_model_text(m, m->types.at[i].type), &type)
                  ?: dp_pack_intern_text(pack, dp_model_text(m, m->types.at[i].unit), &unit);
        err = err ?: dp_pack_put(pack, type) ?: dp_pack_put(pack, unit);
    }
    return err;
}

/* Leaves out closing ticks after which no other process has a tick: what was in use at the end stays to be seen. */
static size_t drop_closing(struct dp_pack_tick *ticks, size_t n)
{
    while (n && ticks[n - 1].closes)
        n--;
    return n;
}

static int put_kinds(struct dp_pack *pack)
{
    qsort(pack->ticks.at, pack->ticks.n, sizeof *pack->ticks.at, by_time);
    int err = dp_pack_put(pack, pack->kinds.n);
    size_t first = 0;
    for (size_t i = 0; i < pack->kinds.n && !err; i++) {
        size_t last = first;
        while (last < pack->ticks.n && pack->ticks.at[last].kind == i)
            last++;
        size_t n = drop_closing(pack->ticks.at + first, last - first);
        err = dp_pack_put(pack, pack->kinds.at[i].name) ?: put_types(pack, &pack->kinds.at[i].model) ?: dp_pack_put(pack, n);
        int64_t end_us = 0;
        for (size_t k = first; k < first + n && !err; k++) {
            struct dp_pack_tick *tick = &pack->ticks.at[k];
            err = dp_pack_put(pack, tick->process - 1) ?: dp_pack_put_signed(pack, tick->end_us - end_us);
            end_us = tick->end_us;
            uint8_t *to = err ? NULL : dp_vec_room(&pack->bytes, tick->n_bytes);
            if (!to)
                return -ENOMEM;
            memcpy(to, pack->bytes.at + tick->offset, tick->n_bytes);
            pack->bytes.n += tick->n_bytes;
        }
        first = last;
    }
    return err;
}

int dp_pack_write(struct dp_pack *pack, dp_pprof_write_fn fn, void *ctx)
{
    int err = dp_pack_close(pack);
    /* The kinds are encoded first, because they may add names of types to the strings. */
    size_t start = pack->bytes.n;
    size_t n_sides = pack->sides[0] ? 2 : 0;
    err = err ?: put_kinds(pack) ?: dp_pack_put(pack, pack->verdict.n > 0);
    for (size_t i = 0; i < pack->verdict.n && !err; i++)
        err = dp_pack_put(pack, pack->verdict.at[i]);
    err = err ?: dp_pack_put(pack, pack->sentences.n / 4);
    for (size_t i = 0; i < pack->sentences.n && !err; i++)
        err = dp_pack_put(pack, pack->sentences.at[i]);
    err = err ?: dp_pack_put(pack, n_sides);
    for (size_t i = 0; i < n_sides && !err; i++) {
        uint32_t text;
        err = dp_pack_intern_text(pack, pack->sides[i], &text) ?: dp_pack_put(pack, text);
    }
    err = err ?: dp_pack_put(pack, pack->n_sources);
    for (size_t i = 0; i < pack->sources.n && !err; i++)
        err = dp_pack_put(pack, pack->sources.at[i]);
    size_t kinds_end = pack->bytes.n;
    err = err ?: put_strings(pack) ?: put_numbers(pack, &pack->frames, false) ?: put_numbers(pack, &pack->nodes, true);
    err = err ?: put_label_sets(pack) ?: put_numbers(pack, &pack->processes, false);
    err = err ?: fn(ctx, pack->bytes.at + kinds_end, pack->bytes.n - kinds_end);
    return err ?: fn(ctx, pack->bytes.at + start, kinds_end - start);
}

void dp_pack_fini(struct dp_pack *pack)
{
    for (size_t i = 0; i < pack->kinds.n; i++) {
        struct dp_pack_kind *kind = &pack->kinds.at[i];
        dp_query_naming_frames_fini(&kind->frames);
        dp_model_fini(&kind->model);
        dp_vec_fini(&kind->now);
        dp_vec_fini(&kind->before);
        dp_vec_fini(&kind->node);
        dp_vec_fini(&kind->labels);
        dp_vec_fini(&kind->stamp);
        dp_vec_fini(&kind->touched);
        dp_vec_fini(&kind->in_use);
    }
    dp_vec_fini(&pack->kinds);
    dp_vec_fini(&pack->ticks);
    dp_vec_fini(&pack->bytes);
    dp_vec_fini(&pack->verdict);
    dp_vec_fini(&pack->sentences);
    dp_vec_fini(&pack->sources);
    dp_strings_fini(&pack->strings);
    dp_strings_fini(&pack->frames);
    dp_strings_fini(&pack->nodes);
    dp_strings_fini(&pack->label_sets);
    dp_strings_fini(&pack->processes);
}
