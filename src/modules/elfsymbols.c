/* SPDX-License-Identifier: MIT */
/*
 * modules/elfsymbols.c - finds functions by address in the symbol tables of a file and its debug files. The tables are
 * sorted once per session, because a report asks for thousands of addresses.
 */
#include "modules/elffile.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_BACK 32

/*
 * Ranks the names of one address; the best is the one that programs use: global before weak before local, fewest
 * underscores.
 */
static unsigned char rank(const GElf_Sym *sym, const char *name)
{
    unsigned bind = GELF_ST_BIND(sym->st_info);
    size_t underscores = strspn(name, "_");
    unsigned base = bind == STB_GLOBAL ? 0 : bind == STB_WEAK ? 16 : 32;
    if (GELF_ST_TYPE(sym->st_info) == STT_NOTYPE)
        base += 64;
    return (unsigned char)(base + (underscores < 15 ? underscores : 15));
}

static bool wanted(const GElf_Sym *sym, const char *name)
{
    unsigned type = GELF_ST_TYPE(sym->st_info);
    if (!name || !*name || sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS)
        return false;
    return type == STT_FUNC || type == STT_GNU_IFUNC || (type == STT_NOTYPE && name[0] != '$');
}

static int by_start(const void *a, const void *b)
{
    const struct function *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->end < y->end ? 1 : x->end > y->end ? -1 : strcmp(x->name, y->name);
}

/*
 * Sorts by by_start. The starts go first, by a radix sort from the lowest digit up: large programs have hundreds of
 * thousands of symbols, and comparing them costs ten times as much. Then functions of one start are compared.
 */
static void sort_functions(struct function *f, size_t n)
{
    enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };
    GElf_Addr least = f[0].start, most = f[0].start;
    for (size_t i = 1; i < n; i++) {
        least = f[i].start < least ? f[i].start : least;
        most = f[i].start > most ? f[i].start : most;
    }
    struct function *spare = malloc(n * sizeof *f), *from = f, *to = spare;
    if (!spare) {
        qsort(f, n, sizeof *f, by_start);
        return;
    }
    for (unsigned shift = 0; shift < 64 && (most - least) >> shift; shift += DIGIT_BITS) {
        size_t at[DIGITS + 1] = {0};
        for (size_t i = 0; i < n; i++)
            at[1 + ((from[i].start - least) >> shift) % DIGITS]++;
        for (unsigned digit = 0; digit < DIGITS; digit++)
            at[digit + 1] += at[digit];
        for (size_t i = 0; i < n; i++)
            to[at[((from[i].start - least) >> shift) % DIGITS]++] = from[i];
        struct function *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != f)
        memcpy(f, from, n * sizeof *f);
    free(spare);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && f[end].start == f[i].start; end++)
            ;
        if (end - i > 1)
            qsort(f + i, end - i, sizeof *f, by_start);
    }
}

/* A symbol without a size extends to the next one. */
static void close_gaps(struct function *f, size_t n)
{
    GElf_Addr next = 0; /* start of the next symbol with another start; 0: there is none */
    for (size_t i = n; i-- > 0;) {
        if (i + 1 < n && f[i + 1].start != f[i].start)
            next = f[i + 1].start;
        if (f[i].end == f[i].start)
            f[i].end = next ? next : f[i].start + 4096;
    }
}

/* Appends a table's functions. 0 or -1: no memory. */
static int add_table(struct elffile *file, Elf *elf, Elf_Scn *scn, const GElf_Shdr *sh)
{
    Elf_Data *data = elf_getdata(scn, NULL);
    size_t n = data && sh->sh_entsize ? sh->sh_size / sh->sh_entsize : 0;
    struct function *f = n < INT_MAX ? realloc(file->functions, (file->n_functions + n + 1) * sizeof *f) : NULL;
    if (!f)
        return -1;
    file->functions = f;
    for (size_t i = 1; i < n; i++) {
        GElf_Sym sym;
        const char *name = gelf_getsym(data, (int)i, &sym) ? elf_strptr(elf, sh->sh_link, sym.st_name) : NULL;
        if (!wanted(&sym, name))
            continue;
        GElf_Addr start = sym.st_value + file->bias;
        f[file->n_functions++] = (struct function){start, start + sym.st_size, name, rank(&sym, name), sym.st_size > 0};
    }
    return 0;
}

static void collect(struct elffile *file)
{
    file->has_functions = 1;
    for (int i = 0; i < file->n_parts; i++) {
        Elf *elf = file->parts[i].elf;
        for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
            GElf_Shdr sh;
            if (gelf_getshdr(scn, &sh) && (sh.sh_type == SHT_SYMTAB || sh.sh_type == SHT_DYNSYM) &&
                add_table(file, elf, scn, &sh))
                break;
        }
    }
    if (file->n_functions)
        sort_functions(file->functions, file->n_functions);
    close_gaps(file->functions, file->n_functions);
}

const struct function *dp_elffile_function(struct elffile *file, GElf_Addr pc)
{
    if (!file->has_functions)
        collect(file);
    size_t lo = 0, hi = file->n_functions;
    while (lo < hi) { /* the first that starts beyond pc */
        size_t mid = lo + (hi - lo) / 2;
        if (file->functions[mid].start <= pc)
            lo = mid + 1;
        else
            hi = mid;
    }
    /*
     * The nearest symbol may end before pc and lie inside a larger one. A function with a size is preferred to a label
     * without one. Of symbols with the same start the better name sorts first, so this loop meets it last.
     */
    const struct function *best = NULL;
    for (size_t back = 0; back < LOOK_BACK && back < lo; back++) {
        const struct function *f = &file->functions[lo - 1 - back];
        if (best && best->sized && f->start != best->start)
            break;
        if (pc < f->end && (!best || f->sized || !best->sized))
            best = f;
    }
    return best;
}
