/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/bare_code.c - finds the caller's frame of code without unwind data, by following its instructions to the
 * return.
 *
 * musl's libc has no unwind data. Without a rule for it, a stack would end at each callback (qsort), at each
 * allocation that libc makes for its caller (strdup), and at each interrupted memcpy.
 *
 * A function's code tells how it returns: from any instruction on, every path to a `ret` takes off the stack exactly
 * what is on it. So one path is enough. What the path adds to sp gives the CFA, and a `pop %rbp` gives the place of the
 * caller's frame pointer. The path follows jumps, passes calls and conditional jumps, and returns to the other side of
 * a conditional jump if it comes to an end: an unknown instruction, a call of a function that never returns, code that
 * it has seen. Two places are tried last. Behind a jump through a register lies a case of the same switch, or, if it is
 * the last call of its function, another function; there the stack is as at that one's begin. Padding behind a call
 * aligns a loop, or the call does not return.
 *
 * A caller's stack pointer was a multiple of 16 at its call. A path that does not lead there from a return address went
 * on into another function, behind a call of one that never returns, and is none.
 *
 * Only the few instructions that move sp matter. Those that are not known (instruction.h) end a path.
 */
#include "host/unwind/bare_code.h"

#include "base/mem.h"
#include "host/objects/loader.h"
#include "host/objects/reach.h"
#include "host/unwind/instruction.h"

#include <string.h>

#if defined(__x86_64__)

enum { PATHS_MOST = 32, LAST_MOST = 4, SEEN_MOST = 128, STEPS_MOST = 2048, RSP = 4, RBP = 5 };

/* What is known at an instruction. The stack pointer is a base plus `up`. */
struct place {
    uintptr_t pc;
    int64_t up;
    int64_t saved;    /* where the frame pointer was popped, above the base */
    bool by_fp;       /* the base is the frame pointer at the begin; else the stack pointer then */
    bool is_restored; /* the frame pointer was popped */
};

struct path {
    const struct dp_bare_code *code;
    struct place at;
    struct place others[PATHS_MOST]; /* the other sides of conditional jumps */
    uintptr_t seen[SEEN_MOST];       /* places that a jump leads to */
    struct place last[LAST_MOST];    /* places that are tried last */
    uint32_t n_others, n_last, n_seen, n_steps;
    uintptr_t first_page, last_page; /* pages that were asked for: readable */
    bool behind_call;
};

/* Whether an instruction at pc may be read. */
static bool can_read(struct path *path, uintptr_t pc)
{
    if (pc < path->code->start || pc >= path->code->end || path->code->end - pc < DP_INSTRUCTION_MOST)
        return false;
    uintptr_t first = dp_page_floor(pc), last = dp_page_floor(pc + DP_INSTRUCTION_MOST);
    if (first != path->first_page && first != path->last_page && !dp_reach_probe(first))
        return false;
    if (last != first && last != path->first_page && last != path->last_page && !dp_reach_probe(last))
        return false;
    path->first_page = first;
    path->last_page = last;
    return true;
}

/* Whether this is the first visit. */
static bool see(struct path *path, uintptr_t pc)
{
    for (uint32_t i = 0; i < path->n_seen; i++)
        if (path->seen[i] == pc)
            return false;
    if (path->n_seen == SEEN_MOST)
        return false;
    path->seen[path->n_seen++] = pc;
    return true;
}

static bool never_returns(const struct dp_bare_code *code, uintptr_t function)
{
    for (uint32_t i = 0; i < code->n_ends; i++)
        if (code->ends[i] == function)
            return true;
    return false;
}

enum next { NEXT_GOES_ON, NEXT_ENDS, NEXT_RETURNS };

static enum next jump(struct path *path, uintptr_t target)
{
    path->at.pc = target;
    return never_returns(path->code, target) || !see(path, target) ? NEXT_ENDS : NEXT_GOES_ON;
}

/* Jumps that depend on something: goes on behind, and remembers the other side. */
static enum next branch(struct path *path, uintptr_t target)
{
    if (path->n_others < PATHS_MOST) {
        path->others[path->n_others] = path->at;
        path->others[path->n_others++].pc = target;
    }
    return NEXT_GOES_ON;
}

/* Ends the path for now. */
static enum next put_off(struct path *path)
{
    if (path->n_last < LAST_MOST)
        path->last[path->n_last++] = path->at;
    return NEXT_ENDS;
}

static enum next pop(struct path *path, uint32_t reg)
{
    struct place *at = &path->at;
    if (reg == RSP)
        return NEXT_ENDS;
    if (reg == RBP && !at->is_restored) {
        at->is_restored = true;
        at->saved = at->up;
    }
    at->up += 8;
    return NEXT_GOES_ON;
}

static enum next rest_on_fp(struct path *path, int64_t up)
{
    if (path->at.is_restored || path->at.by_fp)
        return NEXT_ENDS;
    path->at.by_fp = true;
    path->at.up = up;
    return NEXT_GOES_ON;
}

/* An instruction of the group 80, 81, 83, 89, 8b, 8d, with sp as the operand that it writes; else it changes no sp. */
static enum next compute(struct path *path, const struct dp_instruction *i)
{
    uint32_t reg = (i->modrm >> 3 & 7) | (i->rex & 4) << 1, rm = (i->modrm & 7) | (i->rex & 1) << 3;
    bool is_register = i->modrm >> 6 == 3;
    struct place *at = &path->at;
    switch (*i->opcode) {
    case 0x81:
    case 0x83: /* add, or, adc, sbb, and, sub, xor, cmp */
        if (!is_register || rm != RSP || (i->modrm >> 3 & 7) == 7)
            return NEXT_GOES_ON;
        if ((i->modrm >> 3 & 7) != 0 && (i->modrm >> 3 & 7) != 5)
            return NEXT_ENDS;
        at->up += (i->modrm >> 3 & 7) == 0 ? i->immediate : -i->immediate;
        return i->wide ? NEXT_GOES_ON : NEXT_ENDS;
    case 0x89: /* mov reg, rm */
        if (!is_register || rm != RSP)
            return NEXT_GOES_ON;
        return reg == RBP && i->wide ? rest_on_fp(path, 0) : NEXT_ENDS;
    case 0x8b: /* mov rm, reg */
        if (reg != RSP)
            return NEXT_GOES_ON;
        return is_register && rm == RBP && i->wide ? rest_on_fp(path, 0) : NEXT_ENDS;
    case 0x8d: /* lea rm, reg */
        if (reg != RSP)
            return NEXT_GOES_ON;
        if (rm == RBP && i->wide)
            return rest_on_fp(path, i->displacement);
        if (rm != RSP || !i->wide)
            return NEXT_ENDS;
        at->up += i->displacement; /* without an index: compilers write lea n(%rsp), %rsp only */
        return NEXT_GOES_ON;
    case 0x87: /* xchg */
        return is_register && (rm == RSP || reg == RSP) ? NEXT_ENDS : NEXT_GOES_ON;
    default:
        return NEXT_GOES_ON;
    }
}

/* Opcodes behind 0f, and ff. */
static enum next far(struct path *path, const struct dp_instruction *i, uintptr_t behind)
{
    if (*i->opcode == 0xff) {
        uint32_t operation = i->modrm >> 3 & 7;
        if (operation == 2 || operation == 6) { /* call, push */
            path->behind_call = operation == 2;
            path->at.up -= operation == 6 ? 8 : 0;
        }
        if (operation == 4) /* jmp */
            return put_off(path);
        return operation == 3 || operation == 5 ? NEXT_ENDS : NEXT_GOES_ON; /* of other segments */
    }
    if ((i->opcode[1] & 0xf0) == 0x80)
        return branch(path, behind + (uintptr_t)i->immediate);
    return i->opcode[1] == 0x0b || i->opcode[1] == 0xa0 || i->opcode[1] == 0xa1 ? NEXT_ENDS : NEXT_GOES_ON;
}

/* Padding: nop with an operand, two-byte nop, int3. */
static bool is_padding(const struct dp_instruction *i)
{
    return (*i->opcode == 0x0f && i->opcode[1] == 0x1f) || *i->opcode == 0xcc ||
           (*i->opcode == 0x90 && !i->is_repeated && !i->rex);
}

static enum next step(struct path *path)
{
    struct dp_instruction i;
    struct place *at = &path->at;
    if (path->n_steps++ >= STEPS_MOST || !can_read(path, at->pc) || !dp_instruction_decode((const uint8_t *)at->pc, &i))
        return NEXT_ENDS;
    if (path->behind_call && is_padding(&i)) {
        path->behind_call = false;
        return put_off(path);
    }
    path->behind_call = false;
    uintptr_t behind = at->pc = at->pc + i.n_bytes;
    uint8_t opcode = *i.opcode;
    if (opcode >= 0x50 && opcode <= 0x57) {
        at->up -= 8;
        return NEXT_GOES_ON;
    }
    if (opcode >= 0x58 && opcode <= 0x5f)
        return pop(path, (opcode & 7u) | (i.rex & 1u) << 3);
    if ((opcode >= 0x70 && opcode <= 0x7f) || (opcode >= 0xe0 && opcode <= 0xe3))
        return branch(path, behind + (uintptr_t)i.immediate);
    switch (opcode) {
    case 0x68:
    case 0x6a:
    case 0x9c: /* push */
        at->up -= 8;
        return NEXT_GOES_ON;
    case 0x8f:
    case 0x9d: /* pop */
        at->up += 8;
        return NEXT_GOES_ON;
    case 0xc9: /* leave: mov %rbp, %rsp; pop %rbp */
        return rest_on_fp(path, 0) == NEXT_ENDS ? NEXT_ENDS : pop(path, RBP);
    case 0xc2:
    case 0xc3:
        return NEXT_RETURNS;
    case 0xe8:
        path->behind_call = true;
        return never_returns(path->code, behind + (uintptr_t)i.immediate) ? NEXT_ENDS : NEXT_GOES_ON;
    case 0xe9:
    case 0xeb:
        return jump(path, behind + (uintptr_t)i.immediate);
    case 0x0f:
    case 0xff:
        return far(path, &i, behind);
    case 0xca:
    case 0xcb:
    case 0xcc:
    case 0xcf:
    case 0xf4: /* far returns, int3, hlt */
        return NEXT_ENDS;
    default:
        return compute(path, &i);
    }
}

enum dp_bare_code_end dp_bare_code_follow(const struct dp_bare_code *code, uintptr_t pc, bool is_caller,
                                          struct dp_cfi_row *row)
{
    struct path path = {.code = code, .at = {.pc = pc}, .behind_call = is_caller};
    enum next next;
    do {
        while ((next = step(&path)) == NEXT_GOES_ON)
            continue;
        if (next == NEXT_RETURNS && is_caller && !path.at.by_fp && (path.at.up < 8 || (path.at.up + 8) % 16))
            next = NEXT_ENDS;
        while (next == NEXT_ENDS && (path.n_others || path.n_last) && path.n_steps < STEPS_MOST) {
            path.at = path.n_others ? path.others[--path.n_others] : path.last[--path.n_last];
            path.behind_call = false;
            if (see(&path, path.at.pc))
                next = NEXT_GOES_ON;
        }
    } while (next == NEXT_GOES_ON);
    if (next != NEXT_RETURNS)
        return DP_BARE_CODE_UNKNOWN;
    int64_t cfa = path.at.up + 8;
    row->cfa = DP_CFA_REGISTER;
    row->reg = path.at.by_fp ? DP_REG_FP : DP_REG_SP;
    row->offset = cfa;
    row->ra = (struct dp_cfi_where){.how = DP_SAVED_OFFSET, .offset = -8};
    row->sp = (struct dp_cfi_where){.how = DP_SAVED_SAME};
    /* popped from below sp: it is pushed later, and the register still has the caller's value */
    bool is_saved = path.at.is_restored && (path.at.by_fp || path.at.saved >= 0);
    row->fp = (struct dp_cfi_where){.how = is_saved ? DP_SAVED_OFFSET : DP_SAVED_SAME,
                                    .offset = is_saved ? path.at.saved - cfa : 0};
    return DP_BARE_CODE_RETURNS;
}

#else

enum dp_bare_code_end dp_bare_code_follow(const struct dp_bare_code *code, uintptr_t pc, bool is_caller,
                                          struct dp_cfi_row *row)
{
    (void)code, (void)pc, (void)is_caller, (void)row;
    return DP_BARE_CODE_UNKNOWN;
}

#endif

static struct dp_bare_code of_libc; /* empty: libc has unwind data */

bool dp_bare_code_find(uintptr_t pc, bool is_caller, struct dp_cfi_row *row)
{
    if (pc - of_libc.start >= of_libc.end - of_libc.start)
        return false;
    *row = (struct dp_cfi_row){.start = pc, .next = UINT64_MAX};
    if (dp_bare_code_follow(&of_libc, pc, is_caller, row) == DP_BARE_CODE_RETURNS)
        return true;
    row->ra.how = DP_SAVED_UNDEFINED;
    return is_caller;
}

#ifdef __GLIBC__

void dp_bare_code_init(void) {}

#else

#include <dlfcn.h>

static int enter(struct dl_phdr_info *info, size_t n_bytes, void *unused)
{
    struct dp_loaded loaded;
    if (dp_loader_measure(info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr, &loaded) &&
        of_libc.ends[0] - loaded.start < loaded.end - loaded.start) {
        of_libc.start = loaded.start;
        of_libc.end = loaded.end;
    }
    return 0;
}

void dp_bare_code_init(void)
{
    static const char *const names[] = {"exit",    "_exit",        "_Exit",     "quick_exit",    "abort",
                                        "longjmp", "pthread_exit", "thrd_exit", "__assert_fail", "__stack_chk_fail"};
    void *libc = of_libc.end ? NULL : dlopen("libc.so", RTLD_LAZY | RTLD_NOLOAD); /* the loader is libc itself */
    for (size_t i = 0; libc && i < sizeof names / sizeof *names; i++) {
        uintptr_t function = (uintptr_t)dlsym(libc, names[i]);
        if (function)
            of_libc.ends[of_libc.n_ends++] = function;
    }
    if (of_libc.n_ends)
        dl_iterate_phdr(enter, NULL);
}

#endif
