/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/cfi.h - reads .eh_frame, the table that says how to find the caller of the code at an address. Pure:
 * reads only the bytes that it is given, allocates nothing, terminates on any input. Context: hook.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* One object's unwind table, as mapped. Each entry of fdes is {address, FDE}, both relative to hdr. */
struct dp_cfi {
    uintptr_t hdr;
    const int32_t *fdes;
    uint32_t n_fdes;
    uintptr_t start, end; /* readable bytes that hold .eh_frame */
};

enum dp_cfi_cfa {
    DP_CFA_UNSET,
    DP_CFA_REGISTER,   /* reg + offset */
    DP_CFA_EXPRESSION, /* at expression, expression_bytes long */
};

enum dp_cfi_saved {
    DP_SAVED_SAME,       /* the register still holds the caller's value */
    DP_SAVED_UNDEFINED,  /* no value; for the return address: there is no caller */
    DP_SAVED_OFFSET,     /* in memory at CFA + offset */
    DP_SAVED_REGISTER,   /* in another register */
    DP_SAVED_OTHER,      /* a value that is computed */
    DP_SAVED_EXPRESSION, /* in memory where an expression says */
};

struct dp_cfi_where {
    uint32_t how; /* enum dp_cfi_saved */
    int64_t offset;
    const uint8_t *expression;
    uint32_t expression_bytes;
};

struct dp_cfi_row {
    uint32_t cfa; /* enum dp_cfi_cfa */
    uint32_t reg;
    int64_t offset;
    const uint8_t *expression;
    uint32_t expression_bytes;
    struct dp_cfi_where fp, ra, sp; /* sp SAME: sp is the CFA, the usual case */
    uint64_t next;                  /* where the next row begins; UINT64_MAX: this is the last one */
    uint64_t start;                 /* where the function begins */
    bool signal;                    /* the code is a signal frame's trampoline */
};

/* DWARF's numbers of the registers that a walk follows. */
#if defined(__x86_64__)
enum { DP_REG_FP = 6, DP_REG_SP = 7, DP_REG_RA = 16 };
#elif defined(__aarch64__)
enum { DP_REG_FP = 29, DP_REG_SP = 31, DP_REG_RA = 30 };
#endif

/*
 * Finds the row for pc. Returns 1: found; 0: the table has nothing for pc; -EINVAL: the table is damaged, or of an
 * unknown form.
 */
int dp_cfi_find(const struct dp_cfi *cfi, uintptr_t pc, struct dp_cfi_row *row);

/*
 * For a table without an index, of which hdr and fdes are not read. at: an FDE. The first gives the range of its code:
 * 0 or -EINVAL. The second gives a row as dp_cfi_find does.
 */
int dp_cfi_code_of(const struct dp_cfi *cfi, uintptr_t at, uintptr_t *start, uintptr_t *end);
int dp_cfi_row_of(const struct dp_cfi *cfi, uintptr_t at, uintptr_t pc, struct dp_cfi_row *row);

/* Whether an FDE has a handler of exceptions and no rules at all, as LuaJIT's, whose code runs in its host's frame. */
bool dp_cfi_is_hosted(const struct dp_cfi *cfi, uintptr_t at);
