/* SPDX-License-Identifier: MIT */
/* base/elf_headers.h - checks the header of an ELF file, and reads the program headers of one. */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define DP_ELF_HEADERS_MAX 128 /* linkers write about a dozen */

/* Whether this is the header of an ELF file of 64 bits in this machine's byte order, with program headers of known
 * size. */
static inline bool dp_elf_is_ours(const Elf64_Ehdr *elf)
{
    return !memcmp(elf->e_ident, ELFMAG, SELFMAG) && elf->e_ident[EI_CLASS] == ELFCLASS64 &&
           elf->e_ident[EI_DATA] == ELFDATA2LSB && elf->e_phentsize == sizeof(Elf64_Phdr) &&
           elf->e_phnum <= DP_ELF_HEADERS_MAX;
}

/* Reads all program headers of an open file. Returns how many there are; 0: it is no such file, or is cut. */
static inline size_t dp_elf_read_headers(int fd, Elf64_Phdr headers[DP_ELF_HEADERS_MAX])
{
    Elf64_Ehdr elf;
    if (pread(fd, &elf, sizeof elf, 0) != sizeof elf || !dp_elf_is_ours(&elf))
        return 0;
    ssize_t n_bytes = (ssize_t)(elf.e_phnum * sizeof *headers);
    return pread(fd, headers, (size_t)n_bytes, (off_t)elf.e_phoff) == n_bytes ? elf.e_phnum : 0;
}
