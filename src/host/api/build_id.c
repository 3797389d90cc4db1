/* SPDX-License-Identifier: MIT */
/* host/api/build_id.c - reads the build-id of the object that this code lies in from its notes in memory. */
#include "host/api/build_id.h"

#include "tmpfs/table_place.h"

#include <link.h>
#include <stdbool.h>

static const char here;

static int find_build_id(struct dl_phdr_info *info, size_t n_bytes, void *ctx)
{
    struct dp_tables_file *header = ctx;
    (void)n_bytes;
    bool is_ours = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        is_ours |= ph->p_type == PT_LOAD && (uintptr_t)&here - info->dlpi_addr - ph->p_vaddr < ph->p_memsz;
    }
    for (int i = 0; is_ours && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        if (ph->p_type != PT_NOTE)
            continue;
        header->n_build_id =
            (uint32_t)dp_tables_build_id((const void *)(info->dlpi_addr + ph->p_vaddr), ph->p_memsz, header->build_id);
        if (header->n_build_id)
            break;
    }
    return is_ours;
}

void dp_outside_build_id(struct dp_tables_file *header)
{
    dl_iterate_phdr(find_build_id, header);
}
