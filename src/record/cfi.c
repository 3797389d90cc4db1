/* SPDX-License-Identifier: MIT */
/*
 * record/cfi.c - binary search in .eh_frame_hdr, then one FDE and its CIE: the call frame program, run up to pc.
 *
 * Formats: LSB core "Exception Frames", DWARF 5 section 6.4, and gcc's extensions. Only the CFA, the frame pointer,
 * the stack pointer and the return address are followed.
 *
 * The bytes may be anything (a truncated file, a library that was written to fool us). So:
 * 1. Every byte is read through a cursor that ends with the record, and a record ends with the segment.
 * 2. A cursor that ran out gives zeros and stays `bad`; what was read before `bad` was seen is used by nobody.
 * 3. Each loop takes at least one byte of a cursor or halves a range, and a program stops after OPS_MAX steps.
 * 4. Sums of addresses and advances are unsigned and may wrap; they are compared, and never read through.
 */
#include "record/cfi.h"

#include <errno.h>
#include <string.h>

enum { OPS_MAX = 1 << 17, STATES_MAX = 16 };

struct cursor {
    const uint8_t *at, *end;
    bool bad;
};

static bool take(struct cursor *c, void *out, size_t n_bytes)
{
    if ((size_t)(c->end - c->at) < n_bytes) {
        c->bad = true;
        c->at = c->end;
        memset(out, 0, n_bytes);
        return false;
    }
    memcpy(out, c->at, n_bytes);
    c->at += n_bytes;
    return true;
}

static void skip(struct cursor *c, uint64_t n_bytes)
{
    if ((uint64_t)(c->end - c->at) < n_bytes) {
        c->bad = true;
        c->at = c->end;
    } else {
        c->at += n_bytes;
    }
}

#define READER(name, type)             \
    static type name(struct cursor *c) \
    {                                  \
        type value;                    \
        take(c, &value, sizeof value); \
        return value;                  \
    }
READER(u8, uint8_t)
READER(u16, uint16_t)
READER(u32, uint32_t)
READER(u64, uint64_t)

static uint64_t uleb(struct cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = u8(c);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

static int64_t sleb(struct cursor *c)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
        byte = u8(c);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    if (byte & 0x40 && shift < 64)
        value |= ~(uint64_t)0 << shift;
    return (int64_t)value;
}

enum { PE_OMIT = 0xff, PE_INDIRECT = 0x80, PE_PCREL = 0x10, PE_ABSOLUTE = 0, PE_ALIGNED = 0x50 };

/* A pointer in one of the encodings that addresses of code come in; others make the cursor bad. */
static uint64_t encoded(struct cursor *c, uint8_t encoding)
{
    uint64_t base = (encoding & 0x70) == PE_PCREL ? (uintptr_t)c->at : 0, value;
    switch (encoding & 0x0f) {
    case 0x00:
    case 0x04:
    case 0x0c:
        value = u64(c);
        break;
    case 0x01:
        value = uleb(c);
        break;
    case 0x02:
        value = u16(c);
        break;
    case 0x03:
        value = u32(c);
        break;
    case 0x09:
        value = (uint64_t)sleb(c);
        break;
    case 0x0a:
        value = (uint64_t)(int16_t)u16(c);
        break;
    case 0x0b:
        value = (uint64_t)(int32_t)u32(c);
        break;
    default:
        c->bad = true;
        return 0;
    }
    uint8_t relative = encoding & 0x70;
    if (encoding & PE_INDIRECT || (relative != PE_ABSOLUTE && relative != PE_PCREL))
        c->bad = true;
    return base + value;
}

/* The record at `at`, as a cursor behind its length; bad where none fits. */
static struct cursor record_at(const struct dp_cfi *cfi, uintptr_t at)
{
    struct cursor c = {(const uint8_t *)cfi->start, (const uint8_t *)cfi->end, false};
    if (at < cfi->start || at >= cfi->end) {
        c.bad = true;
        c.at = c.end;
        return c;
    }
    c.at = (const uint8_t *)at;
    uint64_t length = u32(&c);
    if (length == 0xffffffff) /* 64-bit DWARF: nobody writes .eh_frame like that */
        c.bad = true;
    if (length > (uint64_t)(c.end - c.at))
        c.bad = true;
    else
        c.end = c.at + length;
    return c;
}

struct cie {
    struct cursor program;
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding; /* of the FDE's addresses */
    bool has_length, signal;
};

/* A pointer to the personality: only its length matters. */
static void skip_encoded(struct cursor *c, uint8_t encoding)
{
    if (encoding == PE_ALIGNED)
        c->bad = true;
    else if (encoding != PE_OMIT)
        encoded(c, encoding & 0x0f);
}

static bool read_cie(const struct dp_cfi *cfi, uintptr_t at, struct cie *cie)
{
    struct cursor c = record_at(cfi, at);
    *cie = (struct cie){0};
    if (u32(&c) != 0 || c.bad)
        return false;
    uint8_t version = u8(&c);
    const char *letters = (const char *)c.at;
    while (u8(&c))
        ;
    if (c.bad || (version != 1 && version != 3))
        return false;
    cie->code_align = uleb(&c);
    cie->data_align = sleb(&c);
    uint64_t ra = version == 1 ? u8(&c) : uleb(&c);
    if (ra != DP_REG_RA)
        return false;
    if (letters[0] == 'z') {
        uint64_t n_bytes = uleb(&c);
        struct cursor data = c;
        skip(&c, n_bytes);
        if (c.bad)
            return false;
        data.end = c.at;
        cie->has_length = true;
        bool known = true;
        for (const char *l = letters + 1; *l && known; l++) {
            switch (*l) {
            case 'R':
                cie->encoding = u8(&data);
                break;
            case 'L':
                u8(&data);
                break;
            case 'P':
                skip_encoded(&data, u8(&data));
                break;
            case 'S':
                cie->signal = true;
                break;
            case 'B':
                break; /* aarch64: signed with the other key */
            default:
                known = false;
                break;
            }
        }
        if (data.bad)
            return false;
    } else if (letters[0]) {
        return false;
    }
    cie->program = c;
    return !c.bad;
}

/* ---- the call frame program ------------------------------------------------------------------------------------- */

struct run {
    const struct cie *cie;
    uint64_t loc, target;
    struct dp_cfi_row row, initial;
    struct dp_cfi_row saved[STATES_MAX];
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

static void set_expression(struct run *r, struct cursor *c, uint64_t reg, enum dp_cfi_saved how)
{
    uint64_t n = uleb(c);
    const uint8_t *at = c->at;
    skip(c, n);
    struct dp_cfi_where *w = where(&r->row, reg);
    if (w && !c->bad)
        *w = (struct dp_cfi_where){.how = how, .expression = at, .expression_bytes = (uint32_t)n};
}

static void restore(struct run *r, uint64_t reg)
{
    struct dp_cfi_where *w = where(&r->row, reg);
    if (w)
        *w = *where(&r->initial, reg);
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

/* Runs until the location passes target or the program ends. False: something that we do not know or that is damaged.
 */
static bool run_program(struct run *r, struct cursor c)
{
    while (c.at < c.end) {
        if (c.bad || r->n_ops++ >= OPS_MAX)
            return false;
        uint8_t op = u8(&c), low = op & 0x3f;
        uint64_t reg, advance = 0;
        switch (op & 0xc0) {
        case 0x40:
            advance = low;
            break;
        case 0x80:
            set(r, low, DP_SAVED_OFFSET, factored(r, uleb(&c)));
            continue;
        case 0xc0:
            restore(r, low);
            continue;
        default:
            switch (op) {
            case OP_NOP:
                break;
            case OP_SET_LOC: {
                uint64_t loc = encoded(&c, r->cie->encoding);
                if (c.bad)
                    return false;
                if (loc > r->target)
                    return true;
                r->loc = loc;
                break;
            }
            case OP_ADVANCE1:
                advance = u8(&c);
                break;
            case OP_ADVANCE2:
                advance = u16(&c);
                break;
            case OP_ADVANCE4:
                advance = u32(&c);
                break;
            case OP_OFFSET_EXTENDED:
                reg = uleb(&c);
                set(r, reg, DP_SAVED_OFFSET, factored(r, uleb(&c)));
                break;
            case OP_OFFSET_EXTENDED_SF:
                reg = uleb(&c);
                set(r, reg, DP_SAVED_OFFSET, factored(r, (uint64_t)sleb(&c)));
                break;
            case OP_NEGATIVE_OFFSET:
                reg = uleb(&c);
                set(r, reg, DP_SAVED_OFFSET, factored(r, -uleb(&c)));
                break;
            case OP_RESTORE_EXTENDED:
                restore(r, uleb(&c));
                break;
            case OP_UNDEFINED:
                set(r, uleb(&c), DP_SAVED_UNDEFINED, 0);
                break;
            case OP_SAME_VALUE:
                set(r, uleb(&c), DP_SAVED_SAME, 0);
                break;
            case OP_REGISTER:
                reg = uleb(&c);
                uleb(&c);
                set(r, reg, DP_SAVED_REGISTER, 0);
                break;
            case OP_VAL_OFFSET:
            case OP_VAL_OFFSET_SF:
                reg = uleb(&c);
                uleb(&c);
                set(r, reg, DP_SAVED_OTHER, 0);
                break;
            case OP_REMEMBER:
                if (r->n_saved == STATES_MAX)
                    return false;
                r->saved[r->n_saved++] = r->row;
                break;
            case OP_RESTORE_STATE:
                if (!r->n_saved)
                    return false;
                r->row = r->saved[--r->n_saved];
                break;
            case OP_DEF_CFA:
                reg = uleb(&c);
                set_cfa(r, reg, (int64_t)uleb(&c));
                break;
            case OP_DEF_CFA_SF:
                reg = uleb(&c);
                set_cfa(r, reg, factored(r, (uint64_t)sleb(&c)));
                break;
            case OP_DEF_CFA_REGISTER:
                set_cfa(r, uleb(&c), r->row.offset);
                break;
            case OP_DEF_CFA_OFFSET:
                r->row.offset = (int64_t)uleb(&c);
                break;
            case OP_DEF_CFA_OFFSET_SF:
                r->row.offset = factored(r, (uint64_t)sleb(&c));
                break;
            case OP_DEF_CFA_EXPRESSION: {
                uint64_t n = uleb(&c);
                const uint8_t *at = c.at;
                skip(&c, n);
                r->row.cfa = DP_CFA_EXPRESSION;
                r->row.expression = at;
                r->row.expression_bytes = (uint32_t)n;
                break;
            }
            case OP_EXPRESSION:
                reg = uleb(&c);
                set_expression(r, &c, reg, DP_SAVED_EXPRESSION);
                break;
            case OP_VAL_EXPRESSION:
                reg = uleb(&c);
                set_expression(r, &c, reg, DP_SAVED_OTHER);
                break;
            case OP_NEGATE_RA_STATE:
                break; /* return addresses are stripped of their code whether they carry one or not */
            case OP_ARGS_SIZE:
                uleb(&c);
                break;
            default:
                return false;
            }
        }
        if (advance) {
            uint64_t loc = r->loc + advance * r->cie->code_align;
            if (loc > r->target)
                return !c.bad;
            r->loc = loc;
        }
    }
    return !c.bad;
}

/* The FDE whose range begins last at or before pc; 0: none. */
static uintptr_t search(const struct dp_cfi *cfi, uintptr_t pc)
{
    uint32_t low = 0, high = cfi->n_fdes;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (cfi->hdr + (uintptr_t)(intptr_t)cfi->fdes[2 * (size_t)middle] <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? cfi->hdr + (uintptr_t)(intptr_t)cfi->fdes[2 * (size_t)(low - 1) + 1] : 0;
}

int dp_cfi_find(const struct dp_cfi *cfi, uintptr_t pc, struct dp_cfi_row *row)
{
    uintptr_t fde = search(cfi, pc);
    if (!fde)
        return 0;
    struct cursor c = record_at(cfi, fde);
    uintptr_t id_at = (uintptr_t)c.at;
    uint32_t back = u32(&c);
    struct cie cie;
    if (c.bad || !back || !read_cie(cfi, id_at - back, &cie))
        return -EINVAL;
    uint64_t start = encoded(&c, cie.encoding);
    uint64_t n_bytes = encoded(&c, cie.encoding & 0x0f);
    if (cie.has_length)
        skip(&c, uleb(&c));
    if (c.bad)
        return -EINVAL;
    if (pc - start >= n_bytes)
        return 0;
    struct run r = {.cie = &cie, .loc = start, .target = pc};
    if (!run_program(&r, cie.program))
        return -EINVAL;
    r.initial = r.row;
    r.loc = start;
    if (!run_program(&r, c))
        return -EINVAL;
    *row = r.row;
    row->signal = cie.signal;
    return row->cfa == DP_CFA_UNSET ? -EINVAL : 1;
}
