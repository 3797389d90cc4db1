/* SPDX-License-Identifier: MIT */
/*
 * objects/loader.h - which loaded file lies at an address, found without a lock. Context: hook.
 */
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
    const char *name;         /* the loader's, good while the file is loaded; "" the main program's; NULL: not known */
};

/* The loader can be asked (glibc >= 2.35); else files are found by their headers in memory. */
bool dp_loader_answers(void);

/*
 * pc: an address that this thread will return to, or runs at, so that what lies there is not unloaded meanwhile. False:
 * no file, or none that could be found.
 */
bool dp_loader_find(uintptr_t pc, struct dp_loaded *loaded);

/* The same by the file's own headers in memory, which is what an older glibc leaves. */
bool dp_loader_scan(uintptr_t pc, struct dp_loaded *loaded);
/* Pages that were found to be no file's may be by now. */
void dp_loader_forget(void);

/* What program headers say, but for the name. False: nothing that could be loaded. */
bool dp_loader_measure(const ElfW(Phdr) * headers, size_t n, uintptr_t bias, struct dp_loaded *loaded);
