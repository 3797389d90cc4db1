/* SPDX-License-Identifier: MIT */
/*
 * walk_machine.h - simulates a machine whose functions are those of walk_code.h: it calls, returns, moves between
 * stacks, takes signals, jumps out, and sometimes writes to any place. Its random moves follow from a seed.
 */
#pragma once

#include "walk_code.h"

#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "host/objects/frames.h"
#include "host/unwind/stack_cache.h"
#include "host/unwind/walk.h"

enum {
#if defined(__aarch64__)
    PAGE = 1 << 14, /* whole pages of kernels with 4 and with 16 KiB */
#else
    PAGE = 4096,
#endif
    CALLS = 256,
    AREAS = 4,
    OTHER_STACK,
    AREA_BYTES = 1 << 16,
    OWN_WORDS = 1 << 14,
    DEPTH_MAX = 100,
    TURNS_BACK = 8
};

struct area {
    uintptr_t lo, hi;
    bool mapped;
};

struct call {
    uintptr_t pc, sp, fp; /* after it has called; pc: where it continues */
};

/* A stack, or a fiber: its calls, from the outermost on. */
struct strand {
    struct call calls[CALLS];
    unsigned n;
};

struct result {
    enum dp_walk_end end;
    uint32_t n;
    uint64_t hash;
    bool known;     /* this stack has the record of the walk before */
    bool elsewhere; /* in code outside of the machine: the other frames are not known */
    uintptr_t pcs[DEPTH_MAX];
};

/* Area 0 lies on the thread's own stack, the last one is for signals; strand i starts in area i. */
struct model {
    uint64_t seed;
    unsigned depth;
    uint32_t generation;
    struct area areas[AREAS];
    void *mapped[AREAS];
    struct strand strands[AREAS - 1];
    struct dp_stack_cache *with, *without;
    bool interrupted;   /* walks are left by longjmp */
    bool alone;         /* no other thread runs this code */
    uintptr_t fps[4];   /* values that functions leave in the frame pointer, again and again */
    uintptr_t hole;     /* a page of an area that is unmapped at the moment; 0: none */
    int mood;           /* 1: more calls than returns; -1: the reverse; 0: neither */
    struct result last; /* of the walk with the stack cache */
    uint64_t turn, n_walks, n_frames, n_whole, n_left, n_known, n_recent;
};

static uint64_t next_random(struct model *m)
{
    m->seed ^= m->seed << 13;
    m->seed ^= m->seed >> 7;
    return m->seed ^= m->seed << 17;
}

static unsigned below(struct model *m, unsigned n)
{
    return (unsigned)(next_random(m) >> 33) % n;
}

static uintptr_t code(struct model *m, unsigned k)
{
    bool returns = k == THE_SIGNAL && below(m, 8);
    return (uintptr_t)walk_model_code + k * CODE + 1 + (returns ? 0 : below(m, CODE));
}

static struct area *area_of(struct model *m, uintptr_t address)
{
    for (int i = 0; i < AREAS; i++)
        if (address - m->areas[i].lo < m->areas[i].hi - m->areas[i].lo)
            return &m->areas[i];
    return NULL;
}

static uintptr_t some_address(struct model *m)
{
    const struct area *a = &m->areas[below(m, 2) ? 0 : below(m, AREAS)];
    return a->lo + 8 * below(m, (unsigned)((a->hi - a->lo) / 8));
}

static uintptr_t some_word(struct model *m)
{
    static const uintptr_t odd[] = {0, 0, 0, 1, 8, 4096, 0x123456789, (uintptr_t)1 << 47, UINTPTR_MAX - 7, UINTPTR_MAX};
    unsigned kind = below(m, 100);
    return kind < 60   ? code(m, below(m, N_SHAPES))
           : kind < 85 ? some_address(m)
           : kind < 87 ? some_address(m) + below(m, 8)
                       : odd[below(m, sizeof odd / sizeof *odd)];
}

/* The value that a function leaves in the frame pointer if it uses it for other things. */
static uintptr_t some_fp(struct model *m)
{
    if (below(m, 64) == 0)
        m->fps[below(m, 4)] = some_word(m);
    return m->fps[below(m, 4)];
}

static void put(uintptr_t address, uintptr_t word)
{
    *(uintptr_t *)address = word;
}

/* A correct function: it saves its registers above its sp, and it saves all registers that its callers need. */
static unsigned some_function(struct model *m)
{
    for (;;) {
        unsigned k = below(m, below(m, 40) ? FIRST_BIG : FIRST_ODD);
        if (below(m, 60) == 0)
            k = FIRST_MARKED + below(m, N_MARKED);
        struct shape s = shapes[k];
        if (s.kind == BY_FP ? s.s >= 2 : return_slot(s) <= s.o && s.s != 1 && s.s <= s.o)
            return k;
    }
}

static bool call(struct model *m, struct strand *strand, unsigned k)
{
    const struct call *caller = &strand->calls[strand->n - 1];
    const struct area *area = area_of(m, caller->sp - 8);
    struct shape s = shapes[k];
    int words = s.kind == BY_FP ? (s.o > s.s ? s.o : s.s) + (int)below(m, 6) : s.o;
    uintptr_t cfa = caller->sp, sp = cfa - 8 * (uintptr_t)words;
    uintptr_t room = 8 * (uintptr_t)(words > s.s ? words : s.s) + 64;
    if (!area || !area->mapped || strand->n == CALLS || cfa - area->lo < room)
        return false;
    if (return_slot(s) != INT_MAX)
        put(cfa - 8 * (uintptr_t)return_slot(s), caller->pc);
    if (s.s)
        put(cfa - 8 * (uintptr_t)s.s, caller->fp);
    uintptr_t fp = s.kind == BY_FP ? cfa - 8 * (uintptr_t)s.o : s.s && below(m, 2) ? some_fp(m) : caller->fp;
    if (s.kind == BY_FP && below(m, 100) == 0) { /* continues on another stack, and returns by its frame pointer */
        uintptr_t elsewhere = some_address(m);
        if (area_of(m, elsewhere)->mapped)
            sp = elsewhere;
    }
    strand->calls[strand->n++] = (struct call){code(m, k), sp, fp};
    return true;
}

static void leave(struct model *m, struct strand *strand, unsigned n)
{
    strand->n -= n < strand->n ? n : strand->n - 1;
    if (below(m, 2)) { /* continues to its next call */
        struct call *top = &strand->calls[strand->n - 1];
        uintptr_t k = (top->pc - 1 - (uintptr_t)walk_model_code) / CODE;
        if (k < N_SHAPES)
            top->pc = code(m, (unsigned)k);
    }
}

/* A signal, on the same stack, on the one for signals, or at any address; on aarch64 perhaps in a function that has
 * saved no register. */
static void take_signal(struct model *m, struct strand *strand)
{
    const struct call *top = &strand->calls[strand->n - 1];
    const struct area *area = &m->areas[AREAS - 1];
    uintptr_t sp = area->hi - 8 * below(m, 32) - 1024, link = 0;
    struct call at = *top;
    at.pc -= below(m, 2);
    if (below(m, 3)) {
        uintptr_t from = below(m, 3) ? at.sp : some_address(m);
        area = area_of(m, from - 8);
        sp = (from - 1024 - 128) & ~(uintptr_t)15;
    }
    if (!area || !area->mapped || strand->n + 1 >= CALLS || sp - area->lo >= area->hi - area->lo)
        return;
#if defined(__aarch64__)
    if (below(m, 2)) {
        unsigned o = 1 + below(m, BY_SP_MAX);
        link = at.pc;
        at.pc = code(m, SLOTS * (o - 1));
        at.sp -= 8 * o;
    }
#endif
    put(sp + CONTEXT_LINK, link);
    put(sp + CONTEXT_PC, at.pc);
    put(sp + CONTEXT_SP, at.sp);
    put(sp + CONTEXT_FP, at.fp);
    strand->calls[strand->n++] = (struct call){code(m, THE_SIGNAL), sp, some_word(m)};
}

static void begin_strand(struct model *m, int i)
{
    struct strand *strand = &m->strands[i];
    const struct area *area = &m->areas[i];
    uintptr_t top = area->hi - 8 * (1 + below(m, 16));
    unsigned k = below(m, 2) ? THE_END : below(m, 4) ? some_function(m) : THE_NONE;
    for (uintptr_t at = top - 128 * 8; at < area->hi; at += 8)
        put(at, 0);
    if (k < FIRST_BIG && below(m, 8) == 0) /* its frame reaches beyond the top */
        top = area->hi - 32 + 8 * below(m, 4);
    strand->calls[0] = (struct call){code(m, k), top - 8 * (uintptr_t)(shapes[k].o < 100 ? shapes[k].o + 4 : 700), 0};
    strand->n = 1;
    for (unsigned n = below(m, 60); n > 0; n--)
        call(m, strand, some_function(m));
}

/* Unmaps an area, or maps it again, empty. */
static void remap(struct model *m, int i)
{
    struct area *area = &m->areas[i];
    area->mapped = !area->mapped;
    int prot = area->mapped ? PROT_READ | PROT_WRITE : PROT_NONE;
    if (mmap((void *)area->lo, AREA_BYTES, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        abort();
    if (area->mapped && i < AREAS - 1)
        begin_strand(m, i);
}

/* Rewrites a call in the middle, at the same sp: another place of the same function, another function, a frame pointer.
 */
static void rewrite(struct model *m, struct strand *strand)
{
    if (strand->n < 3)
        return;
    unsigned i = 1 + below(m, strand->n - 2);
    struct call *c = &strand->calls[i], *callee = c + 1;
    struct shape s = shape_at(callee->pc - 1);
    const struct area *area = area_of(m, c->sp - 128 * 8);
    if ((s.kind != BY_SP && s.kind != BY_FP) || return_slot(s) == INT_MAX || !area || !area->mapped)
        return;
    uintptr_t k = (c->pc - 1 - (uintptr_t)walk_model_code) / CODE;
    switch (below(m, 4)) {
    case 0:
    case 1:
        c->pc = k < N_SHAPES ? code(m, (unsigned)k) : c->pc;
        put(c->sp - 8 * (uintptr_t)return_slot(s), c->pc);
        break;
    case 2:
        put(c->sp - 8 * (uintptr_t)return_slot(s), code(m, some_function(m)));
        break;
    default:
        if (s.s)
            put(c->sp - 8 * (uintptr_t)s.s, below(m, 2) ? some_fp(m) : strand->calls[below(m, strand->n)].fp);
        break;
    }
}

static uint32_t generation = 1;

/* As if a library were closed and another one mapped at its address: functions whose frames have another size. */
static void replace_code(struct model *m)
{
    const struct dp_object *object = dp_object_get(dp_object_find((uintptr_t)walk_model_code));
    uintptr_t hdr = (uintptr_t)object->eh_frame_hdr;
    for (unsigned n = 1 + below(m, 30); n > 0; n--) {
        unsigned k = SLOTS * below(m, BY_SP_MAX);
        uintptr_t wanted = (uintptr_t)walk_model_code + k * CODE - hdr;
        uint32_t i = 0;
        while ((uintptr_t)(intptr_t)object->fde_table[2 * i] != wanted)
            i++;
        uint8_t *program = (uint8_t *)hdr + object->fde_table[2 * i + 1] + 18; /* DW_CFA_def_cfa_offset, bytes */
        uintptr_t page = dp_page_floor((uintptr_t)&program[1]); /* on aarch64 perhaps with code beside it */
        shapes[k].o = 1 + (int)below(m, BY_SP_MAX);
        if (program[0] != 0x0e || mprotect((void *)page, dp_page_bytes(), PROT_READ | PROT_WRITE | PROT_EXEC))
            abort();
        program[1] = (uint8_t)(8 * shapes[k].o);
    }
    m->generation = ++generation;
}

static void change(struct model *m, struct strand *strand, int i)
{
    const struct call *top = &strand->calls[strand->n - 1];
    unsigned what = below(m, 100);
    if (below(m, 200) == 0)
        m->mood = (int)below(m, 3) - 1;
    if (m->mood && what < 40)
        what = m->mood > 0 ? 30 : 45;
    if (what < 30) {
        leave(m, strand, 1 + below(m, 3));
        for (unsigned n = below(m, 6); n > 0; n--)
            call(m, strand, some_function(m));
    } else if (what < 45) {
        for (unsigned n = 1 + below(m, 3); n > 0; n--)
            call(m, strand, some_function(m));
    } else if (what < 60) {
        leave(m, strand, 1 + below(m, 4));
    } else if (what < 66) { /* a recursion */
        unsigned k = some_function(m);
        for (unsigned n = below(m, 40); n > 0 && k < FIRST_BIG; n--)
            call(m, strand, k);
    } else if (what < 70) { /* a longjmp */
        leave(m, strand, below(m, strand->n));
    } else if (what < 80) {
        rewrite(m, strand);
    } else if (what < 84) {
        take_signal(m, strand);
        for (unsigned n = below(m, 5); n > 0; n--)
            call(m, strand, some_function(m));
    } else if (what < 92) { /* random words below sp, which have no meaning */
        const struct area *area = area_of(m, top->sp - 8);
        for (uintptr_t at = top->sp; area && area->mapped && at > area->lo + 8 && below(m, 64);)
            put(at -= 8, some_word(m));
    } else if (what < 94) { /* a random word near sp */
        uintptr_t at = top->sp + 8 * below(m, 100);
        const struct area *area = area_of(m, at);
        if (area && area->mapped)
            put(at, some_word(m));
    } else if (what < 95) {
        call(m, strand, below(m, N_SHAPES - 3));
    } else if (what < 97) {
        begin_strand(m, i);
    } else if (below(m, 8) == 0) {
        remap(m, 1 + (int)below(m, AREAS - 1));
    } else if (below(m, 64) == 0) {
        if (m->alone)
            replace_code(m);
    }
}
