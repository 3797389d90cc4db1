/* SPDX-License-Identifier: MIT */
/*
 * objects/loader_scan.c - finds the file at an address by looking for its ELF header, on glibc before 2.35.
 *
 * What is loaded by then is entered in the table of objects by whoever may ask the loader (symbols/loader_sync.c): when
 * the profiler starts and at reports. This is for code that came since: a plugin, an encoding or a name service that
 * libc opens by itself, a library whose constructors run. There is no call after a dlopen where it could be learned: a
 * hook on dlopen would stand between the loader and its caller, whose search path counts. The list of link_maps cannot
 * be read without the loader's lock, and that lock must not be waited for in here; but the headers lie in memory, the
 * first page of a file's mapping is the ELF header, and pages of one file are mapped as one run.
 *
 * So: from pc downwards, page by page, until a page begins as an ELF header, whose program headers then say whether pc
 * is code of that file. The first header decides: a file that carries another one in a page of its own is known once it
 * is in the table. The kernel compares the page's first word (reach.c), so a page that is missing, or goes away under
 * the look, is a "no" and no fault. The header itself is read by us. If it is that of pc's own file, it stays: this
 * thread is going to return there. If it is another's, below code that has no file (a JIT's), it is read only if it is
 * of no object that is known; what remains is a file that nobody has seen yet, unmapped in the nanoseconds between,
 * right below code that is met for the first time.
 *
 * Pages that turned out to be no file's are remembered in runs, or a JIT's frames would be looked for in every walk.
 * A file that is mapped there later is found after the next dlclose or report, when runs are forgotten.
 *
 * A word is a run: its first page's number << 24 | pages. Relaxed, and whole: what it says is nothing but itself.
 */
#include "objects/loader.h"

#include "base/atomic.h"
#include "objects/objects.h"
#include "objects/reach.h"

#include <string.h>
#include <sys/auxv.h>

enum { PAGE = 4096, PAGES_MAX = 1 << 15, HOLE_MAX = 512, PHDRS_MAX = 64, RUNS = 16, RUN_BITS = 24 };

static _Atomic uint64_t runs[RUNS];
static _Atomic uint32_t next_run;

void dp_loader_forget(void)
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

/* [first, last] is no file's; it lengthens the run in *where, if there is one. */
static void remember(uint64_t first, uint64_t last, _Atomic uint64_t *where)
{
    uint64_t n = last - first + 1;
    if (n >> RUN_BITS)
        return;
    if (!where)
        where = &runs[dp_add_relaxed(&next_run, 1) % RUNS];
    dp_store_relaxed(where, first << RUN_BITS | n);
}

/* The file whose header lies at `header`. False: it cannot be one that was loaded. *code: it has code at pc. */
static bool read_header(uintptr_t header, uintptr_t pc, struct dp_loaded *loaded, bool *code)
{
    ElfW(Ehdr) elf;
    ElfW(Phdr) headers[PHDRS_MAX];
    memcpy(&elf, (const void *)header, sizeof elf);
    if (memcmp(elf.e_ident, ELFMAG, SELFMAG) || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
        elf.e_phentsize != sizeof *headers || elf.e_phnum > PHDRS_MAX ||
        elf.e_phoff > PAGE - elf.e_phnum * sizeof *headers)
        return false;
    memcpy(headers, (const void *)(header + elf.e_phoff), elf.e_phnum * sizeof *headers);
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
 * A file's first page may lie anywhere as data: the loader itself leaves one on the stack of who calls dlopen. So what
 * it says must hold: the unwind table's header (version 1, encodings that all linkers write) is where it should be.
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
    uintptr_t header = getauxval(AT_PHDR) & ~(uintptr_t)(PAGE - 1);
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
    uint64_t last = pc / PAGE, low = last + 1; /* the lowest page known to be no file's */
    if (run_at(last, &where))
        return false;
    for (uint64_t page = last, n_holes = 0; page && last - page < PAGES_MAX && n_holes < HOLE_MAX; page--) {
        uint64_t run = run_at(page, &where);
        if (run) {
            low = run >> RUN_BITS;
            break;
        }
        int same = dp_reach_compare(page * PAGE, elf_magic());
        if (same < 0 && page == last)
            return false;
        n_holes = same < 0 ? n_holes + 1 : 0;
        if (same == 0)
            low = page;
        if (same <= 0)
            continue;
        const struct dp_object *known = dp_object_at(page * PAGE);
        bool code = false;
        if (known) { /* perhaps only now, by another thread */
            *loaded = (struct dp_loaded){known->start, known->end, known->bias, known->eh_frame_hdr, NULL};
            code = pc < known->end;
        } else if (!read_header(page * PAGE, pc, loaded, &code)) {
            loaded->end = 0;
        }
        if (code && (known || has_unwind_table(loaded)))
            return true;
        uint64_t end = (loaded->end + PAGE - 1) / PAGE; /* another's; what lies behind it is nobody's */
        low = end > low ? end : low;
        break;
    }
    if (low <= last)
        remember(low, last, where);
    return false;
}
