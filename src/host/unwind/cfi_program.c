/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/cfi_program.c - interprets call frame instructions: DWARF 5 section 6.4.2, and gcc's extensions.
 *
 * Only the CFA, the frame pointer, the stack pointer and the return address are followed. Each instruction consumes at
 * least one byte, and a program stops after OPS_MAX instructions. Sums of addresses are unsigned and may wrap: they are
 * only compared, never dereferenced.
 */
#include "host/unwind/cfi_program.h"

enum { OPS_MAX = 1 << 17, STATES_MAX = 16 };

struct run {
    const struct dp_cfi_cie *cie;
    uint64_t loc, target;
    struct dp_cfi_row row;
    struct dp_cfi_where initial_fp, initial_ra, initial_sp;
    unsigned n_saved, n_ops;
};

static struct dp_cfi_where *where(struct dp_cfi_row *row, uint64_t reg)
{
    return reg == DP_REG_FP ? &row->fp : reg == DP_REG_RA ? &row->ra : reg == DP_REG_SP ? &row->sp : NULL;
}

static void set(struct run *r, uint64_t reg, enum dp_cfi_saved how, int64_t offset)
{
    struct dp_cfi_where *w = where(&r->row, reg);
    if (w)
        *w = (struct dp_cfi_where){.how = how, .offset = offset};
}

static void set_expression(struct run *r, struct dp_cfi_cursor *c, uint64_t reg, enum dp_cfi_saved how)
{
    uint64_t n = dp_cfi_cursor_uleb(c);
    const uint8_t *at = c->at;
    dp_cfi_cursor_skip(c, n);
    struct dp_cfi_where *w = where(&r->row, reg);
    if (w && !c->bad)
        *w = (struct dp_cfi_where){.how = how, .expression = at, .expression_bytes = (uint32_t)n};
}

static void restore(struct run *r, uint64_t reg)
{
    struct dp_cfi_where *w = where(&r->row, reg);
    if (w)
        *w = reg == DP_REG_FP ? r->initial_fp : reg == DP_REG_RA ? r->initial_ra : r->initial_sp;
}

static void set_cfa(struct run *r, uint64_t reg, int64_t offset)
{
    r->row.cfa = DP_CFA_REGISTER;
    r->row.reg = reg < 256 ? (uint32_t)reg : 255;
    r->row.offset = offset;
}

static int64_t factored(const struct run *r, uint64_t n)
{
    return (int64_t)(n * (uint64_t)r->cie->data_align);
}

enum {
    OP_NOP = 0x00,
    OP_SET_LOC,
    OP_ADVANCE1,
    OP_ADVANCE2,
    OP_ADVANCE4,
    OP_OFFSET_EXTENDED,
    OP_RESTORE_EXTENDED,
    OP_UNDEFINED,
    OP_SAME_VALUE,
    OP_REGISTER,
    OP_REMEMBER,
    OP_RESTORE_STATE,
    OP_DEF_CFA,
    OP_DEF_CFA_REGISTER,
    OP_DEF_CFA_OFFSET,
    OP_DEF_CFA_EXPRESSION,
    OP_EXPRESSION,
    OP_OFFSET_EXTENDED_SF,
    OP_DEF_CFA_SF,
    OP_DEF_CFA_OFFSET_SF,
    OP_VAL_OFFSET,
    OP_VAL_OFFSET_SF,
    OP_VAL_EXPRESSION,
    OP_NEGATE_RA_STATE = 0x2d,
    OP_ARGS_SIZE = 0x2e,
    OP_NEGATIVE_OFFSET = 0x2f,
};

enum outcome {
    BAD,      /* an unknown instruction, or damaged bytes */
    DONE,     /* the location passed target, or the program ended */
    RESTORED, /* the next instruction runs with the row that was remembered last */
};

static enum outcome run_program(struct run *r, struct dp_cfi_cursor *c);

/* The row is kept in this function's frame until it is restored: a walk may run on a small stack. */
static __attribute__((noinline)) enum outcome run_remembering(struct run *r, struct dp_cfi_cursor *c)
{
    if (r->n_saved == STATES_MAX)
        return BAD;
    struct dp_cfi_row saved = r->row;
    r->n_saved++;
    enum outcome outcome = run_program(r, c);
    if (outcome != RESTORED)
        return outcome;
    r->n_saved--;
    r->row = saved;
    return RESTORED;
}

static enum outcome run_program(struct run *r, struct dp_cfi_cursor *c)
{
    while (c->at < c->end) {
        if (c->bad || r->n_ops++ >= OPS_MAX)
            return BAD;
        uint8_t op = dp_cfi_cursor_u8(c), low = op & 0x3f;
        uint64_t reg, advance = 0;
        switch (op & 0xc0) {
        case 0x40:
            advance = low;
            break;
        case 0x80:
            set(r, low, DP_SAVED_OFFSET, factored(r, dp_cfi_cursor_uleb(c)));
            continue;
        case 0xc0:
            restore(r, low);
            continue;
        default:
            switch (op) {
            case OP_NOP:
                break;
            case OP_SET_LOC: {
                uint64_t loc = dp_cfi_cursor_encoded(c, r->cie->encoding);
                if (c->bad)
                    return BAD;
                if (loc > r->target) {
                    r->row.next = loc;
                    return DONE;
                }
                r->loc = loc;
                break;
            }
            case OP_ADVANCE1:
                advance = dp_cfi_cursor_u8(c);
                break;
            case OP_ADVANCE2:
                advance = dp_cfi_cursor_u16(c);
                break;
            case OP_ADVANCE4:
                advance = dp_cfi_cursor_u32(c);
                break;
            case OP_OFFSET_EXTENDED:
                reg = dp_cfi_cursor_uleb(c);
                set(r, reg, DP_SAVED_OFFSET, factored(r, dp_cfi_cursor_uleb(c)));
                break;
            case OP_OFFSET_EXTENDED_SF:
                reg = dp_cfi_cursor_uleb(c);
                set(r, reg, DP_SAVED_OFFSET, factored(r, (uint64_t)dp_cfi_cursor_sleb(c)));
                break;
            case OP_NEGATIVE_OFFSET:
                reg = dp_cfi_cursor_uleb(c);
                set(r, reg, DP_SAVED_OFFSET, factored(r, -dp_cfi_cursor_uleb(c)));
                break;
            case OP_RESTORE_EXTENDED:
                restore(r, dp_cfi_cursor_uleb(c));
                break;
            case OP_UNDEFINED:
                set(r, dp_cfi_cursor_uleb(c), DP_SAVED_UNDEFINED, 0);
                break;
            case OP_SAME_VALUE:
                set(r, dp_cfi_cursor_uleb(c), DP_SAVED_SAME, 0);
                break;
            case OP_REGISTER:
                reg = dp_cfi_cursor_uleb(c);
                dp_cfi_cursor_uleb(c);
                set(r, reg, DP_SAVED_REGISTER, 0);
                break;
            case OP_VAL_OFFSET:
            case OP_VAL_OFFSET_SF:
                reg = dp_cfi_cursor_uleb(c);
                dp_cfi_cursor_uleb(c);
                set(r, reg, DP_SAVED_OTHER, 0);
                break;
            case OP_REMEMBER: {
                enum outcome outcome = run_remembering(r, c);
                if (outcome != RESTORED)
                    return outcome;
                break;
            }
            case OP_RESTORE_STATE:
                return r->n_saved ? RESTORED : BAD;
            case OP_DEF_CFA:
                reg = dp_cfi_cursor_uleb(c);
                set_cfa(r, reg, (int64_t)dp_cfi_cursor_uleb(c));
                break;
            case OP_DEF_CFA_SF:
                reg = dp_cfi_cursor_uleb(c);
                set_cfa(r, reg, factored(r, (uint64_t)dp_cfi_cursor_sleb(c)));
                break;
            case OP_DEF_CFA_REGISTER:
                set_cfa(r, dp_cfi_cursor_uleb(c), r->row.offset);
                break;
            case OP_DEF_CFA_OFFSET:
                r->row.offset = (int64_t)dp_cfi_cursor_uleb(c);
                break;
            case OP_DEF_CFA_OFFSET_SF:
                r->row.offset = factored(r, (uint64_t)dp_cfi_cursor_sleb(c));
                break;
            case OP_DEF_CFA_EXPRESSION: {
                uint64_t n = dp_cfi_cursor_uleb(c);
                const uint8_t *at = c->at;
                dp_cfi_cursor_skip(c, n);
                r->row.cfa = DP_CFA_EXPRESSION;
                r->row.expression = at;
                r->row.expression_bytes = (uint32_t)n;
                break;
            }
            case OP_EXPRESSION:
                reg = dp_cfi_cursor_uleb(c);
                set_expression(r, c, reg, DP_SAVED_EXPRESSION);
                break;
            case OP_VAL_EXPRESSION:
                reg = dp_cfi_cursor_uleb(c);
                set_expression(r, c, reg, DP_SAVED_OTHER);
                break;
            case OP_NEGATE_RA_STATE:
                break; /* no effect: every return address is stripped of its authentication code */
            case OP_ARGS_SIZE:
                dp_cfi_cursor_uleb(c);
                break;
            default:
                return BAD;
            }
        }
        if (advance) {
            uint64_t loc = r->loc + advance * r->cie->code_align;
            if (loc > r->target) {
                r->row.next = loc;
                return c->bad ? BAD : DONE;
            }
            r->loc = loc;
        }
    }
    return c->bad ? BAD : DONE;
}

bool dp_cfi_program_run(const struct dp_cfi_cie *cie, struct dp_cfi_cursor program, uint64_t start, uint64_t pc,
                        struct dp_cfi_row *row)
{
    struct run r = {.cie = cie, .loc = start, .target = pc, .row.next = UINT64_MAX};
    struct dp_cfi_cursor c = cie->program;
    if (run_program(&r, &c) != DONE)
        return false;
    r.initial_fp = r.row.fp;
    r.initial_ra = r.row.ra;
    r.initial_sp = r.row.sp;
    r.loc = start;
    r.n_saved = 0;
    if (run_program(&r, &program) != DONE)
        return false;
    *row = r.row;
    return true;
}
