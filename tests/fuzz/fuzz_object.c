/* SPDX-License-Identifier: MIT */
/*
 * fuzz_object.c - fuzzes the reader of a loaded file: program headers, build-id, unwind table, and a rule made from it.
 * The input is: the address of the unwind table's header according to the loader, a code address (4 bytes each,
 * relative to the file), then the file as mapped; its last byte lies before an unmapped page.
 */
#include "host/objects/objects.h"
#include "host/unwind/rule.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes < 8)
        return 0;
    uint32_t hdr, pc;
    memcpy(&hdr, data, 4);
    memcpy(&pc, data + 4, 4);
    size_t n = n_bytes - 8;
    void *copy;
    if (posix_memalign(&copy, 4096, n ? n : 1))
        return 0;
    memcpy(copy, data + 8, n);
    struct dp_object object = {
        .start = (uintptr_t)copy,
        .end = (uintptr_t)copy + n,
        .bias = (uintptr_t)copy,
        .eh_frame_hdr = (const char *)copy + hdr,
    };
    if (dp_object_read(&object) && object.n_fdes) {
        struct dp_cfi cfi = {(uintptr_t)object.eh_frame_hdr, object.fde_table, object.n_fdes, object.cfi_start,
                             object.cfi_end};
        struct dp_cfi_row row;
        if (dp_cfi_find(&cfi, (uintptr_t)copy + pc, &row) > 0)
            (void)dp_rule_make(&row, (uintptr_t)copy + pc);
    }
    free(copy);
    return 0;
}
