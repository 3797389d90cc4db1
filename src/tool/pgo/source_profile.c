/* SPDX-License-Identifier: MIT */
/*
 * tool/pgo/source_profile.c - walks through the line table of each function that has a sample.
 *
 * An entry of the table is a run of code of one line: [start, end). Its samples are added to the line's place, which is
 * the chain of inlined calls, the distance from the function's first line, and the discriminator, which tells blocks of
 * one line apart. Distances survive changes elsewhere in the file. The discriminator is packed as compilers do it; the
 * part that tells blocks apart comes first.
 */
#include "tool/pgo/source_profile.h"

#include <errno.h>
#include <string.h>

enum { CHAIN_MAX = 64, LINE_MASK = 0xffff };

/* ---- discriminators --------------------------------------------------------------------------------------------- */

static uint32_t first_part(uint32_t packed)
{
    uint32_t bits = packed >> 1;
    return packed & 1 ? 0 : bits & 0x20 ? (bits >> 1 & 0xfe0) | (bits & 0x1f) : bits & 0x1f;
}

static struct dp_pgo_place place_of(const struct dp_symbol_line *line)
{
    return (struct dp_pgo_place){(uint32_t)(line->line - line->start_line) & LINE_MASK,
                                 first_part(line->discriminator)};
}

static bool same(struct dp_pgo_place a, struct dp_pgo_place b)
{
    return a.line == b.line && a.discriminator == b.discriminator;
}

/* ---- functions and lines ---------------------------------------------------------------------------------------- */

/* Without what the compiler appends to the names of parts and of clones. */
static size_t name_bytes(const char *name)
{
    static const char *const suffixes[] = {".llvm.", ".cold", ".part."};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const char *at = strstr(name, suffixes[i]);
        if (at && at > name && (size_t)(at - name) < n)
            n = (size_t)(at - name);
    }
    return n;
}

/* Number + 1 of a function; 0: no memory. parent: as in struct dp_pgo_function. */
static uint32_t function_of(struct dp_pgo_profile *p, uint32_t parent, struct dp_pgo_place call, const char *name)
{
    uint32_t id = dp_strings_add(&p->names, name, name_bytes(name));
    if (id == DP_STRINGS_NONE)
        return 0;
    uint32_t *first = parent ? &p->functions.at[parent - 1].first_inlined : &p->first;
    for (uint32_t i = *first; i; i = p->functions.at[i - 1].next) {
        const struct dp_pgo_function *f = &p->functions.at[i - 1];
        if (f->name == id && (!parent || same(f->call, call)))
            return i;
    }
    struct dp_pgo_function *new = dp_vec_push(&p->functions);
    if (!new)
        return 0;
    first = parent ? &p->functions.at[parent - 1].first_inlined : &p->first; /* the array may have moved */
    *new = (struct dp_pgo_function){.name = id, .parent = parent, .call = call, .next = *first};
    return *first = (uint32_t)p->functions.n;
}

static struct dp_pgo_line *line_of(struct dp_pgo_profile *p, uint32_t function, struct dp_pgo_place place)
{
    struct dp_pgo_function *f = &p->functions.at[function - 1];
    for (uint32_t i = f->first_line; i; i = p->lines.at[i - 1].next)
        if (same(p->lines.at[i - 1].place, place))
            return &p->lines.at[i - 1];
    struct dp_pgo_line *new = dp_vec_push(&p->lines);
    if (!new)
        return NULL;
    *new = (struct dp_pgo_line){.place = place};
    *(f->last_line ? &p->lines.at[f->last_line - 1].next : &f->first_line) = (uint32_t)p->lines.n;
    f->last_line = (uint32_t)p->lines.n;
    return new;
}

/* ---- the line table --------------------------------------------------------------------------------------------- */

/* The file's functions around an address; lines: CHAIN_MAX. */
static int chain_at(const struct dp_pgo_samples *s, uint64_t address, struct dp_symbol_line *lines)
{
    int n = s->names.ops->lookup(s->names.session, s->handle, address, lines, CHAIN_MAX);
    return n > 0 && lines[0].line > 0 ? n : 0;
}

static int add_run(struct dp_pgo_profile *p, const struct dp_pgo_samples *s, uint64_t start, uint64_t end,
                   bool is_entry)
{
    struct dp_symbol_line chain[CHAIN_MAX];
    int n = chain_at(s, start, chain);
    int64_t n_samples = dp_pgo_samples_sum(s, start, end);
    uint32_t function = 0;
    struct dp_pgo_place call = {0};
    if (!n) {
        p->n_lost += n_samples;
        return 0;
    }
    for (int i = n - 1; i >= 0; i--) {
        const char *name = chain[i].system_name ? chain[i].system_name : chain[i].name;
        function = function_of(p, function, call, name ? name : "");
        if (!function)
            return -ENOMEM;
        call = place_of(&chain[i]);
    }
    struct dp_pgo_line *line = line_of(p, function, call);
    if (!line)
        return -ENOMEM;
    line->n += n_samples;
    struct dp_pgo_function *f = &p->functions.at[function - 1];
    if (is_entry && !f->parent && !f->has_entry) {
        f->entry = call;
        f->has_entry = true;
    }
    return 0;
}

static int add_function(struct dp_pgo_profile *p, const struct dp_pgo_samples *s, uint64_t start, uint64_t end)
{
    int err = 0;
    for (uint64_t at = start; at < end && !err;) {
        struct dp_symbol_ranges r;
        uint64_t next = end;
        if (!s->names.ops->ranges(s->names.session, s->handle, at, &r) && r.line_end > at && r.line_end < end)
            next = r.line_end;
        err = add_run(p, s, at, next, at == start);
        at = next;
    }
    return err;
}

int dp_pgo_profile_make(struct dp_pgo_profile *p, const struct dp_pgo_samples *s)
{
    uint64_t done = 0; /* samples below this address were added with their function */
    int err = dp_strings_add(&p->names, "", 0) == DP_STRINGS_NONE ? -ENOMEM : 0;
    for (size_t i = 0; i < s->at.n && !err; i++) {
        uint64_t address = s->at.at[i].address;
        struct dp_symbol_ranges r;
        if (address < done)
            continue;
        if (s->names.ops->ranges(s->names.session, s->handle, address, &r) || r.function_start < done) {
            p->n_lost += s->at.at[i].n;
            continue;
        }
        err = add_function(p, s, r.function_start, r.function_end);
        done = r.function_end;
    }
    return err;
}

void dp_pgo_profile_fini(struct dp_pgo_profile *p)
{
    dp_strings_fini(&p->names);
    dp_vec_fini(&p->functions);
    dp_vec_fini(&p->lines);
}
