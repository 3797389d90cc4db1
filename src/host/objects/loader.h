/* SPDX-License-Identifier: MIT */
/* host/objects/loader.h - finds the loaded file at an address, without a lock. Context: hook. */
#pragma once

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dp_loaded {
    uintptr_t start, end;     /* the mapped range */
    uintptr_t bias;           /* address in memory - address in the file's program headers */
    const void *eh_frame_hdr; /* NULL: none */
    /* the loader's string, valid while the file is loaded; "" for the main program; NULL: not known */
    const char *name;
};

/* Whether the loader can be asked (glibc >= 2.35). If not, files are found by their headers in memory. */
bool dp_loader_answers(void);

/*
 * pc: an address that this thread will return to, or runs at, so that its file is not unloaded meanwhile. False: no
 * file was found.
 */
bool dp_loader_find(uintptr_t pc, struct dp_loaded *loaded);

/* The same, by the file's headers in memory: the only way with an older glibc. */
bool dp_loader_scan(uintptr_t pc, struct dp_loaded *loaded);
/* Forgets which pages belonged to no file: a file may be mapped there now. */
void dp_loader_clear(void);

/* Fills *loaded, except for the name, from program headers. False: they describe nothing that could be loaded. */
bool dp_loader_measure(const ElfW(Phdr) * headers, size_t n, uintptr_t bias, struct dp_loaded *loaded);
