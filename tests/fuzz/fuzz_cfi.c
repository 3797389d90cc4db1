/* SPDX-License-Identifier: MIT */
/*
 * fuzz_cfi.c - fuzzes the CFI parser with any bytes. The input is: a count of table entries and an address (4 bytes
 * each), then the segment, table first. The parser must not read beyond it, so its last byte lies before an unmapped
 * page.
 */
#include "host/unwind/rule.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes < 8)
        return 0;
    uint32_t n_fdes, at;
    memcpy(&n_fdes, data, 4);
    memcpy(&at, data + 4, 4);
    size_t n = n_bytes - 8;
    char *copy = malloc(n ? n : 1); /* as large as needed: an address sanitizer sees the end */
    memcpy(copy, data + 8, n);
    struct dp_cfi cfi = {
        .hdr = (uintptr_t)copy,
        .fdes = (const int32_t *)copy,
        .n_fdes = n_fdes < n / 8 ? n_fdes : (uint32_t)(n / 8),
        .start = (uintptr_t)copy,
        .end = (uintptr_t)copy + n,
    };
    for (unsigned i = 0; i < 4; i++) {
        struct dp_cfi_row row;
        uintptr_t pc = (uintptr_t)copy + at + i * 5;
        if (dp_cfi_find(&cfi, pc, &row) > 0)
            (void)dp_rule_make(&row, pc);
    }
    free(copy);
    return 0;
}
