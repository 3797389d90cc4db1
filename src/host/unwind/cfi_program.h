/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/cfi_program.h - runs the call frame program of a CIE and of an FDE. Context: hook.
 */
#pragma once

#include "host/unwind/cfi.h"
#include "host/unwind/cfi_cursor.h"

struct dp_cfi_cie {
    struct dp_cfi_cursor program;
    uint64_t code_align;
    int64_t data_align;
    uint8_t encoding; /* encoding of the FDE's addresses */
    bool has_length, signal, has_handler;
};

/*
 * Computes the row for pc: runs the CIE's program, then `program`, which belongs to the FDE whose range begins at
 * `start`. False: the program is damaged or has unknown instructions.
 */
bool dp_cfi_program_run(const struct dp_cfi_cie *cie, struct dp_cfi_cursor program, uint64_t start, uint64_t pc,
                        struct dp_cfi_row *row);
