/* SPDX-License-Identifier: MIT */
/*
 * modules/elffile.h - an opened ELF file with its debug files, and its functions by address. For the symbolize and
 * lines modules.
 */
#pragma once

#include <gelf.h>
#include <stddef.h>
#include <stdint.h>

struct elfsymbols; /* of modules/elfsymbols.c: the functions of a file, or its variables */

/* One of the files or sections that symbols come from. */
struct elfpart {
    Elf *elf;
    int fd; /* -1: memory */
};

struct elffile {
    char *path; /* the true path, not that of a link in /proc */
    uintptr_t bias;
    struct elfpart parts[3]; /* the file, then its separate debug file and .gnu_debugdata, if any */
    int n_parts;
    void *unpacked;                         /* .gnu_debugdata, or the image of [vdso] */
    struct elfsymbols *symbols, *variables; /* NULL: not read yet */
    void *lines;                            /* data of the lines module */
};

/* Returns 0, or -errno: -ESTALE if the file at path has another build-id (n_build_id 0: any is accepted).
 * path "[vdso]": the code that the kernel maps into this process. */
int dp_elffile_open(struct elffile *file, const char *path, const uint8_t *build_id, size_t n_build_id, uintptr_t bias);
void dp_elffile_close(struct elffile *file);

/* Opens the separate debug file of the file at path, found by .build-id directory or by `link`; -1: there is none. */
int dp_elffile_find_debug(const char *path, const uint8_t *build_id, size_t n_build_id, const char *link, char **found);

/* The name of the function that holds pc, valid until the next call; NULL: not known. */
const char *dp_elffile_function(struct elffile *file, GElf_Addr pc);
/* The same of the variable that holds an address outside the code. *offset: from its begin. */
const char *dp_elffile_variable(struct elffile *file, GElf_Addr address, uint64_t *offset);
void dp_elfsymbols_free(struct elfsymbols *); /* takes NULL */
