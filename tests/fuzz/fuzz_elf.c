/* SPDX-License-Identifier: MIT */
/* fuzz_elf.c - the symbolize module (ELF symbol tables, .gnu_debugdata, build-ids) on any bytes; see fuzz_names.h. */
#include "fuzz_names.h"

extern const struct dp_symbolize_ops dp_module_symbolize;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_names(&dp_module_symbolize, data, size);
}
