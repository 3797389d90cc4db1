/* SPDX-License-Identifier: MIT */
/*
 * host/objects/loader_scan.c - finds the file at an address by looking for its ELF header, on glibc before 2.35.
 *
 * At the profiler's start and at reports, host/symbols/loader_sync.c asks the loader for all files and enters them in
 * the table of objects. This file is for code that was loaded since: a plugin, an encoding or a name service that libc
 * opens by itself, a library whose constructors run. The profiler cannot learn of it by a hook on dlopen, because the
 * loader uses the caller's search path, and the hook would be the caller. The list of link_maps cannot be read either:
 * that needs the loader's lock, and a hook must not wait for it. But the headers lie in memory: the first page of a
 * file's mapping is the ELF header, and the pages of one file are mapped as one run.
 *
 * So the scan goes from pc downwards, page by page, until a page begins like an ELF header. The program headers there
 * say whether pc is code of that file. The first header decides. (A file that contains another ELF file in one of its
 * pages is therefore found only once it is in the table.) The kernel compares the page's first word (reach.c), so a
 * page that is missing, or is unmapped at that moment, is a "no" and not a fault. The header itself is read directly.
 * If it belongs to pc's own file, it stays mapped, because this thread is going to return there. If it belongs to
 * another file, below code without a file (JIT code), it is read only if that file is not in the table. One risk
 * remains: an unknown file that is unmapped between the comparison and the read, right below code that is met for the
 * first time.
 *
 * Pages without a file are remembered in runs; otherwise each walk would scan again for each JIT frame. A file that is
 * mapped there later is found after the next dlclose or report, when the runs are forgotten.
 *
 * A run is one word: number of its first page << 24 | number of pages. Accesses are relaxed: a run is complete in its
 * word and publishes nothing else.
 */
#include "host/objects/loader.h"

#include "base/atomic.h"
#include "base/elf_headers.h"
#include "base/mem.h"
#include "host/objects/objects.h"
#include "host/objects/reach.h"

#include <stdalign.h>
#include <string.h>
#include <sys/auxv.h>

enum { PAGES_MAX = 1 << 15, HOLE_MAX = 512, RUNS = 16, RUN_BITS = 24 };

static _Atomic uint64_t runs[RUNS];
static _Atomic uint32_t next_run;

void dp_loader_clear(void)
{
    for (int i = 0; i < RUNS; i++)
        dp_store_relaxed(&runs[i], 0);
}

static uint32_t elf_magic(void)
{
    uint32_t word;
    memcpy(&word, ELFMAG, sizeof word);
    return word;
}

/* The run that a page is in; 0: none. */
static uint64_t run_at(uint64_t page, _Atomic uint64_t **where)
{
    for (int i = 0; i < RUNS; i++) {
        uint64_t run = dp_load_relaxed(&runs[i]);
        if (page - (run >> RUN_BITS) < (run & ((1u << RUN_BITS) - 1))) {
            *where = &runs[i];
            return run;
        }
    }
    return 0;
}

/* Remembers that [first, last] belongs to no file; extends the run in *where, if there is one. */
static void remember(uint64_t first, uint64_t last, _Atomic uint64_t *where)
{
    uint64_t n = last - first + 1;
    if (n >> RUN_BITS)
        return;
    if (!where)
        where = &runs[dp_add_relaxed(&next_run, 1) % RUNS];
    dp_store_relaxed(where, first << RUN_BITS | n);
}

/*
 * Fills *loaded for the file whose header lies at `header`. False: this cannot be a loaded file. *code: it has code at
 * pc.
 */
static bool read_header(uintptr_t header, uintptr_t pc, struct dp_loaded *loaded, bool *code)
{
    ElfW(Ehdr) elf;
    memcpy(&elf, (const void *)header, sizeof elf);
    if (!dp_elf_is_ours(&elf) || elf.e_phoff % alignof(ElfW(Phdr)) ||
        elf.e_phoff > DP_PAGE_LEAST - elf.e_phnum * sizeof(ElfW(Phdr)))
        return false;
    const ElfW(Phdr) *headers = (const void *)(header + elf.e_phoff); /* in place: the stack may be small */
    if (!dp_loader_measure(headers, elf.e_phnum, 0, loaded) ||
        !dp_loader_measure(headers, elf.e_phnum, header - loaded->start, loaded))
        return false;
    *code = false;
    for (unsigned i = 0; i < elf.e_phnum; i++)
        *code |= headers[i].p_type == PT_LOAD && headers[i].p_flags & PF_X &&
                 pc - (loaded->bias + headers[i].p_vaddr) < headers[i].p_memsz;
    return true;
}

/*
 * A file's first page may lie anywhere as data: the loader itself leaves a copy on the stack of the thread that calls
 * dlopen. So its content is verified: the unwind table's header (version 1, encodings that all linkers write) must be
 * where the program headers say.
 */
static bool has_unwind_table(const struct dp_loaded *loaded)
{
    static const unsigned char begins[] = {1, 0x1b, 0x03, 0x3b};
    uint32_t word;
    memcpy(&word, begins, sizeof word);
    return loaded->eh_frame_hdr && dp_reach_compare((uintptr_t)loaded->eh_frame_hdr, word) > 0;
}

static bool is_main_program(uintptr_t pc, struct dp_loaded *loaded)
{
    uintptr_t header = dp_page_floor(getauxval(AT_PHDR));
    bool code;
    loaded->name = NULL;
    if (!header || dp_reach_compare(header, elf_magic()) <= 0 || !read_header(header, pc, loaded, &code) || !code)
        return false;
    loaded->name = "";
    return true;
}

bool dp_loader_scan(uintptr_t pc, struct dp_loaded *loaded)
{
    if (is_main_program(pc, loaded))
        return true;
    _Atomic uint64_t *where = NULL;
    const uintptr_t page_bytes = dp_page_bytes();
    uint64_t last = pc / page_bytes, low = last + 1; /* the lowest page known to be no file's */
    if (run_at(last, &where))
        return false;
    for (uint64_t page = last, n_holes = 0; page && last - page < PAGES_MAX && n_holes < HOLE_MAX; page--) {
        uint64_t run = run_at(page, &where);
        if (run) {
            low = run >> RUN_BITS;
            break;
        }
        int same = dp_reach_compare(page * page_bytes, elf_magic());
        if (same < 0 && page == last)
            return false;
        n_holes = same < 0 ? n_holes + 1 : 0;
        if (same == 0)
            low = page;
        if (same <= 0)
            continue;
        const struct dp_object *known = dp_object_at(page * page_bytes);
        bool code = false;
        if (known) { /* another thread may have entered it meanwhile */
            *loaded = (struct dp_loaded){known->start, known->end, known->bias, known->eh_frame_hdr, NULL};
            code = pc < known->end;
        } else if (!read_header(page * page_bytes, pc, loaded, &code)) {
            loaded->end = 0;
        }
        if (code && (known || has_unwind_table(loaded)))
            return true;
        uint64_t end = dp_page_ceil(loaded->end) / page_bytes; /* another file; the pages behind it belong to no file */
        low = end > low ? end : low;
        break;
    }
    if (low <= last)
        remember(low, last, where);
    return false;
}
