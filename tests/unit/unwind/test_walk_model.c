/* SPDX-License-Identifier: MIT */
/*
 * Walks by the million over stacks of a machine that is played here: it calls, returns, moves between stacks, takes
 * signals, jumps out, and sometimes writes anywhere. Its code is real: functions of every shape of rule, assembled
 * below with the unwind data that says so. Three must agree, frame for frame, at each turn: a walk with what the stack
 * cache remembers, a walk with nothing remembered, and a plain unwinder in this file that knows neither stack cache nor
 * cache and takes the rules from a table instead of .eh_frame.
 *
 * usage: test_walk_model [TURNS [SEED]]. Uses nothing but libc, so that aarch64.sh can run it too.
 */
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

#include <deltaprof/hooks.h>

#include "objects/frames.h"
#include "unwind/stack_cache.h"
#include "unwind/unwind_cache.h"
#include "unwind/unwind.h"
#include "unwind/walk.h"

/* ---- code ------------------------------------------------------------------------------------------------------- */

enum shape_kind { BY_SP, BY_FP, END, SIGNAL, FOREIGN, NONE };

/* Functions of CODE bytes each, in the order of shape_of(). o: words up to the CFA. s: words from the CFA down to the
 * saved frame pointer, 0: not saved. */
enum { CODE = 16, BY_SP_MAX = 12, BY_FP_MAX = 4, SLOTS = 8, N_ALONE = 12, N_BIG = 8, N_ODD = 8, N_MARKED = 2 };
enum {
    FIRST_BY_FP = BY_SP_MAX * SLOTS,
    FIRST_ALONE = FIRST_BY_FP + BY_FP_MAX * SLOTS,
    FIRST_BIG = FIRST_ALONE + N_ALONE,
    FIRST_ODD = FIRST_BIG + N_BIG,
    FIRST_MARKED = FIRST_ODD + N_ODD,
    N_SHAPES = FIRST_MARKED + N_MARKED,
    THE_END = FIRST_ODD,
    THE_SIGNAL,
    THE_NONE = FIRST_ODD + 4,
};

#if defined(__x86_64__)
#define SAVED "  .if s\n  .cfi_offset 6, -8*s\n  .endif\n"
#define ALONE ""
#define FP    "6"
#define PC    "16"
#define OTHER "3"
enum { CFA_AT_ENTRY = 1 };
#define SIGRETURN "0x48,0xc7,0xc0,0x0f,0,0,0,0x0f,0x05,0,0,0,0,0,0"
#elif defined(__aarch64__)
#define SAVED     "  .if s\n  .cfi_offset 29, -8*s\n  .cfi_offset 30, 8-8*s\n  .endif\n"
#define ALONE     "  .cfi_offset 30, -8*o\n"
#define FP        "29"
#define PC        "30"
#define OTHER     "19"
enum { CFA_AT_ENTRY = 0 };
#define SIGRETURN "0x68,0x11,0x80,0xd2,0x01,0,0,0xd4,0,0,0,0,0,0,0"
#endif
/* The no-op keeps the assembler from moving what follows into a record that functions share. */
#define FUNCTION(directives) "  .cfi_startproc\n  .cfi_escape 0\n" directives "  .skip 16\n  .cfi_endproc\n"
#define ALL_O(n, ...)        ".set o, 1\n.rept " #n "\n" __VA_ARGS__ " .set o, o+1\n.endr\n"
#define ALL_S(...)           " .set s, 0\n .rept 8\n" __VA_ARGS__ "  .set s, s+1\n .endr\n"
#define BIG(o, s)            ".set s," #s "\n" FUNCTION("  .cfi_def_cfa_offset 8*" #o "\n" SAVED)
#define FACTORED(o)          "  .cfi_escape 0x13, " #o "\n" /* CFA = sp - 8 * o */

/* clang-format off */
__asm__(".pushsection .text.walk_model,\"ax\",%progbits\n.balign 16\n"
        ".globl walk_model_code, walk_model_code_end\n.hidden walk_model_code, walk_model_code_end\n"
        "walk_model_code:\n"
        ALL_O(12, ALL_S(FUNCTION("  .cfi_def_cfa_offset 8*o\n" SAVED)))
        ALL_O(4, ALL_S(FUNCTION("  .cfi_def_cfa " FP ", 8*o\n" SAVED)))
        ALL_O(12, FUNCTION("  .cfi_def_cfa_offset 8*o\n" ALONE))
        BIG(100, 0) BIG(100, 2) BIG(100, 100) BIG(100, 120) BIG(600, 0) BIG(600, 2) BIG(600, 100) BIG(600, 127)
        FUNCTION("  .cfi_undefined " PC "\n")
        /* The kernel's frame where the second byte is returned to; elsewhere a mark on a frame without a word. */
        "  .cfi_startproc\n  .cfi_escape 0\n  .cfi_signal_frame\n  .byte 0," SIGRETURN "\n  .cfi_endproc\n"
        FUNCTION("  .cfi_def_cfa " OTHER ", 16\n")
        FUNCTION("  .cfi_def_cfa_offset 12\n")
        "  .skip 16\n.set s, 2\n"
        FUNCTION(FACTORED(0)) FUNCTION(FACTORED(1) SAVED) FUNCTION(FACTORED(6))
        FUNCTION("  .cfi_signal_frame\n  .cfi_def_cfa_offset 8*4\n" SAVED)
        FUNCTION("  .cfi_signal_frame\n  .cfi_def_cfa " FP ", 8*2\n" SAVED)
        "walk_model_code_end:\n.popsection\n");
/* clang-format on */
extern const char walk_model_code[], walk_model_code_end[];

struct shape {
    enum shape_kind kind;
    int o, s;
    bool alone;  /* aarch64: the return address is saved, and the frame pointer is not */
    bool marked; /* as a signal frame: the caller's pc is exact */
};

static struct shape shapes[N_SHAPES];

static void make_shapes(void)
{
    static const struct shape last[N_BIG + N_ODD + N_MARKED] = {
        {BY_SP, 100, 0, 0, 0}, {BY_SP, 100, 2, 0, 0}, {BY_SP, 100, 100, 0, 0}, {BY_SP, 100, 120, 0, 0},
        {BY_SP, 600, 0, 0, 0}, {BY_SP, 600, 2, 0, 0}, {BY_SP, 600, 100, 0, 0}, {BY_SP, 600, 127, 0, 0},
        {END, 0, 0, 0, 0},     {SIGNAL, 0, 0, 0, 0},  {FOREIGN, 0, 0, 0, 0},   {FOREIGN, 0, 0, 0, 0},
        {NONE, 0, 0, 0, 0},    {BY_SP, 0, 0, 0, 0},   {BY_SP, -1, 2, 0, 0},    {BY_SP, -6, 0, 0, 0},
        {BY_SP, 4, 2, 0, 1},   {BY_FP, 2, 2, 0, 1},
    };
    for (int k = 0; k < FIRST_ALONE; k++)
        shapes[k] = k < FIRST_BY_FP ? (struct shape){BY_SP, k / SLOTS + 1, k % SLOTS, false, false}
                                    : (struct shape){BY_FP, (k - FIRST_BY_FP) / SLOTS + 1, k % SLOTS, false, false};
    for (int o = 1; o <= N_ALONE; o++)
        shapes[FIRST_ALONE + o - 1] = (struct shape){BY_SP, o, 0, true, false};
    memcpy(&shapes[FIRST_BIG], last, sizeof last);
}

static struct shape shape_at(uintptr_t pc)
{
    uintptr_t from = pc - (uintptr_t)walk_model_code;
    if (from >= (uintptr_t)(walk_model_code_end - walk_model_code))
        return (struct shape){NONE, 0, 0, false, false};
    if (from / CODE == THE_SIGNAL && from % CODE)
        return (struct shape){BY_SP, CFA_AT_ENTRY, 0, false, true};
    return shapes[from / CODE];
}

/* Words from the CFA down to the return address; 0: it is in the link register. */
static int return_slot(struct shape s)
{
#if defined(__x86_64__)
    return 1;
#else
    return s.alone ? s.o : s.s ? s.s - 1 : INT_MAX;
#endif
}

#if defined(__x86_64__)
enum {
    CONTEXT = 0,
    CONTEXT_PC = offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]),
    CONTEXT_SP = offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP]),
    CONTEXT_FP = offsetof(ucontext_t, uc_mcontext.gregs[REG_RBP]),
    CONTEXT_LINK = CONTEXT_PC, /* there is none */
};
#else
enum {
    CONTEXT = 128, /* behind the siginfo */
    CONTEXT_PC = CONTEXT + offsetof(ucontext_t, uc_mcontext.pc),
    CONTEXT_SP = CONTEXT + offsetof(ucontext_t, uc_mcontext.sp),
    CONTEXT_FP = CONTEXT + offsetof(ucontext_t, uc_mcontext.regs[29]),
    CONTEXT_LINK = CONTEXT + offsetof(ucontext_t, uc_mcontext.regs[30]),
};
#endif

/* ---- the machine ------------------------------------------------------------------------------------------------ */

enum {
    PAGE = 4096,
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
    uintptr_t pc, sp, fp; /* once it has called; pc where it goes on */
};

/* A stack, or a fiber: what it has called, from the outermost on. */
struct strand {
    struct call calls[CALLS];
    unsigned n;
};

struct result {
    enum dp_walk_end end;
    uint32_t n;
    uint64_t hash;
    bool known;     /* the record of the walk before is still this stack's */
    bool elsewhere; /* in code that is not the machine's: the rest is not known */
    uintptr_t pcs[DEPTH_MAX];
};

/* Area 0 lies on the thread's own stack, the last one is for signals; strand i starts in area i. */
struct model {
    uint64_t seed;
    unsigned depth;
    uint32_t generation;
    struct area areas[AREAS];
    struct strand strands[AREAS - 1];
    struct dp_stack_cache *with, *without;
    bool interrupted;   /* walks are left by longjmp */
    bool alone;         /* no other thread runs this code */
    uintptr_t fps[4];   /* that functions leave in the frame pointer, again and again */
    uintptr_t hole;     /* a page of an area that is not there for the moment; 0: none */
    int mood;           /* calls more than it returns, or the other way */
    struct result last; /* of the walk with the stack cache */
    uint64_t turn, n_walks, n_frames, n_whole, n_left, n_known;
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

/* What a function leaves in the frame pointer when it is free to. */
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

/* A function that behaves: what it saves lies above its sp, and what others still need is saved. */
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
    if (s.kind == BY_FP && below(m, 100) == 0) { /* goes on elsewhere, and comes back by its frame pointer */
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
    if (below(m, 2)) { /* goes on to its next call */
        struct call *top = &strand->calls[strand->n - 1];
        uintptr_t k = (top->pc - 1 - (uintptr_t)walk_model_code) / CODE;
        if (k < N_SHAPES)
            top->pc = code(m, (unsigned)k);
    }
}

/* A signal, on the same stack, on that for signals, or anywhere; on aarch64 perhaps in a function that has
 * saved nothing. */
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
    if (k < FIRST_BIG && below(m, 8) == 0) /* runs off the top */
        top = area->hi - 32 + 8 * below(m, 4);
    strand->calls[0] = (struct call){code(m, k), top - 8 * (uintptr_t)(shapes[k].o < 100 ? shapes[k].o + 4 : 700), 0};
    strand->n = 1;
    for (unsigned n = below(m, 60); n > 0; n--)
        call(m, strand, some_function(m));
}

/* Memory that goes away, and comes back empty. */
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

/* A library is closed and another lies in its place: functions whose frames have another size. */
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
        uintptr_t page = (uintptr_t)&program[1] & ~(uintptr_t)(PAGE - 1);
        shapes[k].o = 1 + (int)below(m, BY_SP_MAX);
        if (program[0] != 0x0e || mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE))
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
    } else if (what < 92) { /* what lies below sp means nothing */
        const struct area *area = area_of(m, top->sp - 8);
        for (uintptr_t at = top->sp; area && area->mapped && at > area->lo + 8 && below(m, 64);)
            put(at -= 8, some_word(m));
    } else if (what < 94) { /* and anything, anywhere near */
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

/* ---- three walks ------------------------------------------------------------------------------------------------ */

static bool readable(struct model *m, uintptr_t address)
{
    const struct area *area = area_of(m, address);
    if (address % 8 || (m->hole && address - m->hole < PAGE))
        return false;
    return area ? area->mapped
                : address - m->with->own.lo < m->with->own.hi - m->with->own.lo || dp_reach_probe(address);
}

/* By the book. */
static void plain_walk(struct model *m, const struct deltaprof_site *site, struct result *r)
{
    uintptr_t pc = site->pc, sp = site->sp, fp = site->fp, link = 0;
    bool exact = false;
    int turns = 0;
    r->n = 0;
    r->elsewhere = false;
    for (;;) {
        uintptr_t where = exact ? pc : dp_walk_strip(pc);
        r->end = where || exact ? DP_WALK_CUT : DP_WALK_WHOLE;
        if (!dp_walk_plausible(where) || r->n == m->depth)
            return;
        where -= !exact;
        r->pcs[r->n++] = where;
        struct shape s = shape_at(where);
        r->elsewhere = s.kind == NONE && dp_object_find(where) && where - (uintptr_t)walk_model_code >= N_SHAPES * CODE;
        if (r->elsewhere)
            return;
        r->end = s.kind == END ? DP_WALK_WHOLE : s.kind == FOREIGN ? DP_WALK_LIBUNWIND : DP_WALK_CUT;
        exact = s.kind == SIGNAL || ((s.kind == BY_SP || s.kind == BY_FP) && s.marked);
        if (s.kind == SIGNAL) {
            if (!readable(m, sp + CONTEXT_PC) || !readable(m, sp + CONTEXT_SP) || !readable(m, sp + CONTEXT_FP) ||
                !readable(m, sp + CONTEXT_LINK) || turns++ >= TURNS_BACK)
                return;
            link = dp_reach_read(sp + CONTEXT_LINK);
            pc = dp_reach_read(sp + CONTEXT_PC);
            fp = dp_reach_read(sp + CONTEXT_FP);
            sp = dp_reach_read(sp + CONTEXT_SP);
        } else if (s.kind == BY_SP || s.kind == BY_FP) {
            uintptr_t cfa = (s.kind == BY_SP ? sp : fp) + 8 * (uintptr_t)(intptr_t)s.o, slot = cfa - 8 * (uintptr_t)s.s;
            bool by_link = return_slot(s) == INT_MAX;
            uintptr_t from = cfa - 8 * (uintptr_t)return_slot(s);
            if (by_link ? !link : !readable(m, from))
                return;
            pc = by_link ? link : dp_reach_read(from);
            link = 0;
            if (s.s && !readable(m, slot))
                return;
            fp = s.s ? dp_reach_read(slot) : fp;
            if (cfa <= sp && turns++ >= TURNS_BACK)
                return;
            sp = cfa;
        } else {
            return;
        }
    }
}

static void our_walk(struct model *m, struct dp_stack_cache *cache, bool forget, const struct deltaprof_site *site,
                     struct result *r)
{
    dp_stack_cache_begin(cache, below(m, 200) ? m->generation : 0);
    if (forget)
        dp_stack_cache_forget(cache);
    r->end = dp_walk(cache, site, m->depth);
    r->known = cache->known.record != 0;
    cache->known.record = 1;
    r->n = dp_stack_cache_depth(cache) < m->depth ? dp_stack_cache_depth(cache) : m->depth;
    r->hash = r->n ? dp_stack_cache_hash(cache, r->n) : 0;
    const dp_frame_id *ids = dp_stack_cache_ids(cache);
    if (r->n && r->hash != dp_stack_hash(ids, r->n))
        r->hash = 1; /* which the other walk cannot have, too */
    for (uint32_t i = 0; i < r->n; i++)
        r->pcs[i] = dp_frame_get(ids[i])->pc;
    dp_stack_cache_end(cache);
}

static bool same_frames(const struct result *a, const struct result *b)
{
    return a->n == b->n && !memcmp(a->pcs, b->pcs, a->n * sizeof *a->pcs);
}

static bool same(const struct result *a, const struct result *b)
{
    return a->end == b->end && a->hash == b->hash && same_frames(a, b);
}

static bool is_right(const struct result *r, const struct result *plain)
{
    if (memcmp(r->pcs, plain->pcs, plain->n * sizeof *r->pcs))
        return false;
    return plain->elsewhere ? r->n >= plain->n : r->n == plain->n && r->end == plain->end;
}

static void show(const char *name, const struct result *r)
{
    printf("%s: end %d, %u frames:", name, r->end, r->n);
    for (uint32_t i = 0; i < r->n; i++)
        printf(" %lx", r->pcs[i] - (uintptr_t)walk_model_code);
    printf("\n");
}

static __thread sigjmp_buf out;
static __thread volatile sig_atomic_t may_leave;

static void compare(struct model *m, const struct deltaprof_site *site)
{
    struct result with, without, plain;
    bool left = m->interrupted && sigsetjmp(out, 0);
    m->n_left += left;
    may_leave = m->interrupted && !left;
    our_walk(m, m->with, false, site, &with);
    may_leave = 0;
    if (with.known && !left && !same_frames(&with, &m->last)) { /* left: perhaps when it was done */
        printf("turn %lu, depth %u: another stack has the record of the last one\n", (unsigned long)m->turn, m->depth);
        exit(1);
    }
    m->n_known += with.known;
    m->last = with;
    our_walk(m, m->without, true, site, &without);
    plain_walk(m, site, &plain);
    if (!is_right(&without, &plain) || !same(&with, &without)) {
        printf("turn %lu, depth %u: they differ\n", (unsigned long)m->turn, m->depth);
        show("with a stack cache", &with);
        show("without    ", &without);
        show("by the book", &plain);
        exit(1);
    }
    m->n_walks++;
    m->n_frames += plain.n;
    m->n_whole += plain.end == DP_WALK_WHOLE;
}

/* Takes a page away that a call of the strand lies in, if it may go, or brings it back. */
static void punch(struct model *m, const struct strand *strand, uintptr_t sp)
{
    uintptr_t page = m->hole;
    if (!page) {
        page = strand->calls[below(m, strand->n)].sp & ~(uintptr_t)(PAGE - 1);
        const struct area *area = area_of(m, page);
        if (!area || area == &m->areas[0] || !area->mapped || sp - page < PAGE)
            return;
    }
    if (mprotect((void *)page, PAGE, m->hole ? PROT_READ | PROT_WRITE : PROT_NONE))
        abort();
    m->hole = m->hole ? 0 : page;
}

static void play(struct model *m, uint64_t n_turns)
{
    int now = 0;
    for (m->turn = 0; m->turn < n_turns; m->turn++) {
        if (!m->areas[now].mapped || below(m, 50) == 0)
            now = below(m, 2) ? 0 : (int)below(m, AREAS - 1);
        if (!m->areas[now].mapped) {
            remap(m, now);
            continue;
        }
        struct strand *strand = &m->strands[now];
        for (unsigned n = below(m, 3); n > 0 && m->areas[now].mapped; n--)
            change(m, strand, now);
        const struct call *top = &strand->calls[strand->n - 1];
        const struct area *area = area_of(m, top->sp);
        if (!area || !area->mapped)
            begin_strand(m, now = 0);
        top = &m->strands[now].calls[m->strands[now].n - 1];
        struct deltaprof_site site = {top->pc, top->sp, below(m, 16) ? top->fp : some_fp(m)};
        if (below(m, 200) == 0) { /* anything, at an edge of what may be read */
            area = &m->areas[below(m, AREAS)];
            site.pc = code(m, below(m, N_SHAPES));
            site.sp = below(m, 2) ? area->lo + 8 * below(m, 4) : area->hi - 8 * (1 + below(m, 4));
            if (!area->mapped)
                continue;
        }
        if (below(m, 8) == 0)
            punch(m, &m->strands[now], site.sp);
        compare(m, &site);
        if (m->hole)
            punch(m, &m->strands[now], site.sp);
    }
}

static void build(struct model *m, uintptr_t *own, uint64_t seed, unsigned depth)
{
    memset(m, 0, sizeof *m);
    m->seed = seed;
    m->depth = depth;
    m->generation = generation;
    m->with = calloc(1, dp_unwind_scratch_bytes());
    m->without = calloc(1, dp_unwind_scratch_bytes());
    m->areas[0] = (struct area){(uintptr_t)own, (uintptr_t)(own + OWN_WORDS), true};
    for (int i = 1; i < AREAS; i++) { /* nothing to read on either side */
        char *at = mmap(NULL, AREA_BYTES + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        m->areas[i] = (struct area){(uintptr_t)at + PAGE, (uintptr_t)at + PAGE + AREA_BYTES, false};
    }
    for (int i = 1; i < AREAS; i++)
        remap(m, i);
    begin_strand(m, 0);
}

static void unbuild(struct model *m)
{
    for (int i = 1; i < AREAS; i++)
        munmap((void *)(m->areas[i].lo - PAGE), AREA_BYTES + 2 * PAGE);
    free(m->with);
    free(m->without);
}

static uint64_t n_turns = 400000, first_seed = 88172645463325252u;

static void on_alarm(int number)
{
    if (may_leave) {
        may_leave = 0;
        siglongjmp(out, 1);
    }
}

static void run(uint64_t seed, unsigned depth, uint64_t turns, bool alone, bool interrupted)
{
    uintptr_t own[OWN_WORDS];
    static __thread struct model m;
    memset(own, 0, sizeof own);
    build(&m, own, seed, depth);
    m.interrupted = interrupted;
    m.alone = alone;
    play(&m, turns);
    printf("depth %3u: %lu walks, %.1f frames each, %.0f %% whole, %lu left by longjmp, %lu unchanged\n", depth,
           (unsigned long)m.n_walks, (double)m.n_frames / (double)m.n_walks,
           100.0 * (double)m.n_whole / (double)m.n_walks, (unsigned long)m.n_left, (unsigned long)m.n_known);
    if (depth > 20 && (m.n_frames < 10 * m.n_walks || m.n_whole < m.n_walks / 8)) {
        printf("these stacks show too little\n");
        exit(1);
    }
    unbuild(&m);
}

static void *thread(void *seed)
{
    run(*(uint64_t *)seed, DEPTH_MAX, n_turns / 8, false, false);
    return NULL;
}

static void set_up(unsigned depth, size_t cache_bytes)
{
    if (dp_unwind_init(DP_UNWIND_AUTO, depth, cache_bytes))
        exit(2);
}

int main(int argc, char **argv)
{
    static const unsigned depths[] = {1, 2, 7, 24, DEPTH_MAX};
    if (argc > 1)
        n_turns = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        first_seed = strtoull(argv[2], NULL, 10);
    make_shapes();
    if ((size_t)(walk_model_code_end - walk_model_code) != N_SHAPES * CODE || dp_frames_init(64 << 20))
        return 2;
    for (int i = 0; i < 5; i++) {
        set_up(depths[i], i % 2 ? 4096 : 1 << 20); /* the small one has room for 256 rows */
        run(first_seed + (uint64_t)i, depths[i], depths[i] < 20 ? n_turns / 8 : n_turns / 4, true, false);
    }

    struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_NODEFER};
    sigaction(SIGALRM, &sa, NULL);
    struct itimerval often = {{0, 61}, {0, 61}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    run(first_seed + 5, DEPTH_MAX, n_turns / 8, true, true);
    setitimer(ITIMER_REAL, &never, NULL);

    set_up(DEPTH_MAX, 4096); /* threads share the rows */
    pthread_t threads[3];
    uint64_t seeds[3];
    for (int i = 0; i < 3; i++) {
        seeds[i] = first_seed + 6 + (uint64_t)i;
        pthread_create(&threads[i], NULL, thread, &seeds[i]);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
