/* SPDX-License-Identifier: MIT */
/* fuzz_dwarf.c - the lines module (DWARF lines and inlined frames) on any bytes; see fuzz_names.h. */
#include "fuzz_names.h"

extern const struct dp_symbolize_ops dp_module_lines;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_names(&dp_module_lines, data, size);
}
