/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/bare_code.h - reads instructions: the unwind rule of code that has no unwind data, and the frame pointer
 * of a function that has one. Context: hook.
 */
#pragma once

#include "host/unwind/cfi.h"

#include <stdbool.h>
#include <stdint.h>

enum { DP_BARE_CODE_ENDS_MOST = 16 };

/* Readable code, and the functions in it that never return. */
struct dp_bare_code {
    uintptr_t start, end;
    uintptr_t ends[DP_BARE_CODE_ENDS_MOST];
    uint32_t n_ends;
    bool is_sure; /* x86_64: a path passes no call and no jump through a register, behind which another function may lie
                   */
};

enum dp_bare_code_end {
    DP_BARE_CODE_UNKNOWN, /* no instruction that returns was found */
    DP_BARE_CODE_RETURNS  /* the row is filled */
};

/*
 * Follows the code from the instruction at pc on to one that returns. Fills the row's rules of sp, fp and ra only.
 * is_caller: pc is a return address.
 */
enum dp_bare_code_end dp_bare_code_follow(const struct dp_bare_code *code, uintptr_t pc, bool is_caller,
                                          struct dp_cfi_row *row);

/*
 * Notes which code is the C library's if that has no unwind data (musl's); else it does nothing. Takes the loader's
 * lock. Context: init.
 */
void dp_bare_code_init(void);

/*
 * Whether pc lies in that code; then fills *row. A caller there that is never returned from is the outermost frame: a
 * thread's start, or main's. False for such a pc otherwise: nothing is known.
 */
bool dp_bare_code_find(uintptr_t pc, bool is_caller, struct dp_cfi_row *row);

/*
 * The same for other code of a file, from start to end: false if no row was found. For a caller on aarch64 only: there
 * the link register tells where a path left its function.
 */
bool dp_bare_code_find_in(uintptr_t start, uintptr_t end, uintptr_t pc, bool is_caller, struct dp_cfi_row *row);

/*
 * For a function that begins at `start` and has called a function, or entered the kernel, at pc: the number of bytes
 * from its stack pointer up to its frame pointer. end: of the mapping that has its code, no byte of which is read
 * without a check that it is readable. False: the code does not show it; on other processors than x86_64 always.
 */
bool dp_unwind_prologue_depth(uintptr_t start, uintptr_t pc, uintptr_t end, uintptr_t *depth_bytes);
