/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/cfi.c - finds an address in .eh_frame: binary search in .eh_frame_hdr, then one FDE and its CIE.
 * cfi_program.c runs their instructions up to pc.
 *
 * Formats: LSB core "Exception Frames", DWARF 5 section 6.4, and gcc's extensions.
 *
 * The bytes are not trusted (a truncated file, a hostile library). So:
 * 1. Every byte is read through a cursor that ends with the record, and a record ends with the segment.
 * 2. A cursor that reached its end returns zeros and stays `bad`; results are used only after `bad` was checked.
 * 3. Each turn of a loop consumes at least one byte of a cursor, or halves a range.
 */
#include "host/unwind/cfi_program.h"

#include <errno.h>

/* The record at `at`, as a cursor behind its length field; bad if no record fits there. */
static struct dp_cfi_cursor record_at(const struct dp_cfi *cfi, uintptr_t at)
{
    struct dp_cfi_cursor c = {(const uint8_t *)cfi->start, (const uint8_t *)cfi->end, false};
    if (at < cfi->start || at >= cfi->end) {
        c.bad = true;
        c.at = c.end;
        return c;
    }
    c.at = (const uint8_t *)at;
    uint64_t length = dp_cfi_cursor_u32(&c);
    if (length == 0xffffffff) /* 64-bit DWARF: not used in .eh_frame */
        c.bad = true;
    if (length > (uint64_t)(c.end - c.at))
        c.bad = true;
    else
        c.end = c.at + length;
    return c;
}

/* Skips the pointer to the personality routine. */
static void skip_encoded(struct dp_cfi_cursor *c, uint8_t encoding)
{
    if (encoding == DP_PE_ALIGNED)
        c->bad = true;
    else if (encoding != DP_PE_OMIT)
        dp_cfi_cursor_encoded(c, encoding & 0x0f);
}

static bool read_cie(const struct dp_cfi *cfi, uintptr_t at, struct dp_cfi_cie *cie)
{
    struct dp_cfi_cursor c = record_at(cfi, at);
    *cie = (struct dp_cfi_cie){0};
    if (dp_cfi_cursor_u32(&c) != 0 || c.bad)
        return false;
    uint8_t version = dp_cfi_cursor_u8(&c);
    const char *letters = (const char *)c.at;
    while (dp_cfi_cursor_u8(&c))
        ;
    if (c.bad || (version != 1 && version != 3))
        return false;
    cie->code_align = dp_cfi_cursor_uleb(&c);
    cie->data_align = dp_cfi_cursor_sleb(&c);
    uint64_t ra = version == 1 ? dp_cfi_cursor_u8(&c) : dp_cfi_cursor_uleb(&c);
    if (ra != DP_REG_RA)
        return false;
    if (letters[0] == 'z') {
        uint64_t n_bytes = dp_cfi_cursor_uleb(&c);
        struct dp_cfi_cursor data = c;
        dp_cfi_cursor_skip(&c, n_bytes);
        if (c.bad)
            return false;
        data.end = c.at;
        cie->has_length = true;
        bool known = true;
        for (const char *l = letters + 1; *l && known; l++) {
            switch (*l) {
            case 'R':
                cie->encoding = dp_cfi_cursor_u8(&data);
                break;
            case 'L':
                dp_cfi_cursor_u8(&data);
                break;
            case 'P':
                cie->has_handler = true;
                skip_encoded(&data, dp_cfi_cursor_u8(&data));
                break;
            case 'S':
                cie->signal = true;
                break;
            case 'B':
                break; /* aarch64: return addresses are signed with key B */
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

/* The FDE with the largest start at or before pc; 0: none. */
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

/* An FDE: its code, and the program that its CIE belongs to. */
struct fde {
    struct dp_cfi_cie cie;
    struct dp_cfi_cursor program;
    uint64_t start, n_bytes;
};

static bool read_fde(const struct dp_cfi *cfi, uintptr_t at, struct fde *fde)
{
    struct dp_cfi_cursor c = record_at(cfi, at);
    uintptr_t id_at = (uintptr_t)c.at;
    uint32_t back = dp_cfi_cursor_u32(&c);
    if (c.bad || !back || !read_cie(cfi, id_at - back, &fde->cie))
        return false;
    fde->start = dp_cfi_cursor_encoded(&c, fde->cie.encoding);
    fde->n_bytes = dp_cfi_cursor_encoded(&c, fde->cie.encoding & 0x0f);
    if (fde->cie.has_length)
        dp_cfi_cursor_skip(&c, dp_cfi_cursor_uleb(&c));
    fde->program = c;
    return !c.bad;
}

static int row_at(const struct fde *fde, uintptr_t pc, struct dp_cfi_row *row)
{
    if (pc - fde->start >= fde->n_bytes)
        return 0;
    if (!dp_cfi_program_run(&fde->cie, fde->program, fde->start, pc, row))
        return -EINVAL;
    row->signal = fde->cie.signal;
    row->start = fde->start;
    return row->cfa == DP_CFA_UNSET ? -EINVAL : 1;
}

int dp_cfi_find(const struct dp_cfi *cfi, uintptr_t pc, struct dp_cfi_row *row)
{
    struct fde fde;
    uintptr_t at = search(cfi, pc);
    if (!at)
        return 0;
    return read_fde(cfi, at, &fde) ? row_at(&fde, pc, row) : -EINVAL;
}

int dp_cfi_code_of(const struct dp_cfi *cfi, uintptr_t at, uintptr_t *start, uintptr_t *end)
{
    struct fde fde;
    if (!read_fde(cfi, at, &fde) || !fde.n_bytes || fde.start + fde.n_bytes < fde.start)
        return -EINVAL;
    *start = fde.start;
    *end = fde.start + fde.n_bytes;
    return 0;
}

int dp_cfi_row_of(const struct dp_cfi *cfi, uintptr_t at, uintptr_t pc, struct dp_cfi_row *row)
{
    struct fde fde;
    return read_fde(cfi, at, &fde) ? row_at(&fde, pc, row) : -EINVAL;
}

bool dp_cfi_is_hosted(const struct dp_cfi *cfi, uintptr_t at)
{
    struct fde fde;
    struct dp_cfi_row row;
    return read_fde(cfi, at, &fde) && fde.cie.has_handler &&
           dp_cfi_program_run(&fde.cie, fde.program, fde.start, UINT64_MAX, &row) && row.cfa == DP_CFA_UNSET;
}
