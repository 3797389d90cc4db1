/* SPDX-License-Identifier: MIT */
/*
 * modules/elfsymbols.c - finds functions and variables by address in the symbol tables of a file and its debug files.
 *
 * A library may have hundreds of thousands of symbols, and each process that ends asks it for a few hundred addresses.
 * So the tables are not sorted and their names are not read. One pass puts each function into the list of its range of
 * addresses, and a look-up visits the functions of a few ranges:
 *
 *     addresses   | least ... | range 1 | range 2 | ...      all ranges have the same size, a power of two
 *     newest      | 4         | none    | 3       | ...      the function of each range that was found last
 *     functions   | 1 | 2 | 3 | 4 |                          in the order of the tables, 16 bytes each
 *     older       | - | - | 2 | 1 |                          the one that was found before it in the same range
 *
 * Functions have numbers from 1. Only the names that a look-up compares or returns are read. Variables have lists of
 * their own, which are made when an address of data is looked up.
 */
#include "modules/elffile.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TABLES_MAX = 8,
    SYMBOLS_MAX = 1 << 28,
    RANGE_SYMBOLS = 8,    /* per range, on average */
    LOOK_BACK = 32,       /* functions before an address that a look-up visits, at least */
    CHUNK_SYMBOLS = 2730, /* read at once */
    LAST_BYTES = 4096,    /* length of the last function, if the file does not tell it */
    NAME_MAX_BYTES = 64 << 10,
};
#define BYTES_MAX ((1u << 29) - 1)

struct symbol_table {
    int part;
    uint64_t symbols, n_symbols, names, n_name_bytes; /* places in the part */
};

struct function {
    uint64_t start;        /* in the file's addresses */
    uint32_t n_bytes : 29; /* 0: not known */
    uint32_t table : 3;
    uint32_t symbol : 28; /* its index in the table */
    uint32_t group : 3;   /* the lowest is preferred */
    uint32_t is_read : 1; /* its name was looked at */
};
_Static_assert(sizeof(struct function) == 16, "large programs have a million");

struct elfsymbols {
    struct symbol_table tables[TABLES_MAX];
    unsigned n_tables;
    struct function *functions;
    uint32_t *older, *newest;
    size_t n, n_most; /* functions; symbols of all tables */
    uint64_t least, end;
    uint64_t last; /* the highest start */
    unsigned range_bits;
    bool has_variables; /* instead of functions */
    char *name;         /* the last one returned */
};

#define SYMBOL_BYTES sizeof(Elf64_Sym)
enum { LABEL = 3, MARK = 7 }; /* groups: of symbols without a type; of those that are left out */

/* Returns how many bytes there are; fewer at the end of the file. */
static size_t read_at(const struct elfpart *part, uint64_t at, void *to, size_t n_bytes)
{
    size_t n = 0, n_image;
    if (part->fd < 0) {
        const char *image = elf_rawfile(part->elf, &n_image);
        n = !image || at >= n_image ? 0 : n_bytes < n_image - at ? n_bytes : n_image - at;
        memcpy(to, n ? image + at : "", n);
        return n;
    }
    while (n < n_bytes) {
        ssize_t got = pread(part->fd, (char *)to + n, n_bytes - n, (off_t)(at + n));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    return n;
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

static uint64_t size_of(const struct elfpart *part)
{
    struct stat st;
    size_t n_image = 0;
    if (part->fd < 0)
        return elf_rawfile(part->elf, &n_image) ? n_image : 0;
    return fstat(part->fd, &st) || st.st_size < 0 ? 0 : (uint64_t)st.st_size;
}

static bool is_native(Elf *elf)
{
    const char *ident = elf_getident(elf, NULL);
    return ident && ident[EI_CLASS] == ELFCLASS64 &&
           ident[EI_DATA] == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB);
}

static void add_table(struct elfsymbols *s, const struct elffile *file, int part, const GElf_Shdr *sh)
{
    GElf_Shdr names;
    uint64_t n_bytes = size_of(&file->parts[part]);
    Elf_Scn *scn = elf_getscn(file->parts[part].elf, sh->sh_link);
    if (s->n_tables == TABLES_MAX || sh->sh_entsize != SYMBOL_BYTES || sh->sh_offset > n_bytes ||
        sh->sh_size > n_bytes - sh->sh_offset || !scn || !gelf_getshdr(scn, &names) || names.sh_type != SHT_STRTAB)
        return;
    s->tables[s->n_tables++] = (struct symbol_table){.part = part,
                                                     .symbols = sh->sh_offset,
                                                     .n_symbols = sh->sh_size / SYMBOL_BYTES,
                                                     .names = names.sh_offset,
                                                     .n_name_bytes = names.sh_size};
}

static void find_tables(struct elfsymbols *s, const struct elffile *file)
{
    for (int i = 0; i < file->n_parts; i++) {
        Elf *elf = file->parts[i].elf;
        for (Elf_Scn *scn = NULL; is_native(elf) && (scn = elf_nextscn(elf, scn));) {
            GElf_Shdr sh;
            if (gelf_getshdr(scn, &sh) && (sh.sh_type == SHT_SYMTAB || sh.sh_type == SHT_DYNSYM))
                add_table(s, file, i, &sh);
        }
    }
}

/* The addresses of the file's code, or of all of it. False: it has none. */
static bool find_bounds(struct elfsymbols *s, Elf *elf)
{
    size_t n = 0;
    elf_getphdrnum(elf, &n);
    s->least = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        GElf_Phdr ph;
        if (!gelf_getphdr(elf, (int)i, &ph))
            break; /* the count is not trusted */
        if (ph.p_type != PT_LOAD || !(s->has_variables || ph.p_flags & PF_X) || ph.p_vaddr + ph.p_memsz < ph.p_vaddr)
            continue;
        s->least = ph.p_vaddr < s->least ? ph.p_vaddr : s->least;
        s->end = ph.p_vaddr + ph.p_memsz > s->end ? ph.p_vaddr + ph.p_memsz : s->end;
    }
    return s->least < s->end;
}

static size_t range_of(const struct elfsymbols *s, uint64_t address)
{
    return (size_t)((address - s->least) >> s->range_bits);
}

/* ---- collecting ------------------------------------------------------------------------------------------------- */

/* Of several names of an address the one is preferred that programs use: global before weak before local. */
static uint32_t group_of(const Elf64_Sym *sym)
{
    unsigned bind = ELF64_ST_BIND(sym->st_info);
    unsigned group = bind == STB_GLOBAL ? 0 : bind == STB_WEAK ? 1 : 2;
    return group + (ELF64_ST_TYPE(sym->st_info) == STT_NOTYPE ? LABEL : 0);
}

static bool is_wanted(const struct elfsymbols *s, const Elf64_Sym *sym)
{
    unsigned type = ELF64_ST_TYPE(sym->st_info);
    bool is_of_type = s->has_variables ? type == STT_OBJECT && sym->st_size
                                       : type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
    return is_of_type && sym->st_name && sym->st_shndx != SHN_UNDEF && sym->st_shndx != SHN_ABS &&
           sym->st_value >= s->least && sym->st_value < s->end;
}

/* Enters a function in the list of its range. */
static void add(struct elfsymbols *s, const Elf64_Sym *sym, unsigned table, uint64_t symbol)
{
    uint32_t *newest = &s->newest[range_of(s, sym->st_value)], number = (uint32_t)++s->n;
    s->functions[number] = (struct function){.start = sym->st_value,
                                             .n_bytes = sym->st_size < BYTES_MAX ? (uint32_t)sym->st_size : BYTES_MAX,
                                             .table = table & 7,
                                             .symbol = (uint32_t)symbol & (SYMBOLS_MAX - 1),
                                             .group = group_of(sym) & 7};
    s->older[number] = *newest;
    *newest = number;
    s->last = sym->st_value > s->last ? sym->st_value : s->last;
}

static void collect_table(struct elfsymbols *s, const struct elffile *file, unsigned table, Elf64_Sym *chunk)
{
    const struct symbol_table *t = &s->tables[table];
    for (uint64_t at = 0, n_read = 1; at < t->n_symbols && n_read; at += n_read) {
        size_t n_left = t->n_symbols - at, n = n_left < CHUNK_SYMBOLS ? n_left : CHUNK_SYMBOLS;
        n_read =
            read_at(&file->parts[t->part], t->symbols + at * sizeof *chunk, chunk, n * sizeof *chunk) / sizeof *chunk;
        for (size_t i = 0; i < n_read; i++)
            if (is_wanted(s, &chunk[i]))
                add(s, &chunk[i], table, at + i);
    }
}

static bool has_room(struct elfsymbols *s)
{
    for (unsigned i = 0; i < s->n_tables; i++)
        s->n_most += s->tables[i].n_symbols;
    if (s->n_most >= SYMBOLS_MAX)
        return false;
    while ((s->end - s->least) >> s->range_bits > s->n_most / RANGE_SYMBOLS + 1)
        s->range_bits++;
    s->newest = calloc(range_of(s, s->end - 1) + 1, sizeof *s->newest);
    s->functions = malloc((s->n_most + 1) * sizeof *s->functions);
    s->older = malloc((s->n_most + 1) * sizeof *s->older);
    return s->newest && s->functions && s->older;
}

static struct elfsymbols *collect(const struct elffile *file, bool has_variables)
{
    struct elfsymbols *s = calloc(1, sizeof *s);
    if (s)
        s->has_variables = has_variables;
    Elf64_Sym *chunk = s && find_bounds(s, file->parts[0].elf) ? malloc(CHUNK_SYMBOLS * sizeof *chunk) : NULL;
    if (!chunk)
        return s;
    find_tables(s, file);
    for (unsigned i = 0; i < s->n_tables && (i || has_room(s)); i++)
        collect_table(s, file, i, chunk);
    free(chunk);
    return s;
}

void dp_elfsymbols_free(struct elfsymbols *s)
{
    if (!s)
        return;
    free(s->functions);
    free(s->older);
    free(s->newest);
    free(s->name);
    free(s);
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* Reads the function's name into memory that the caller frees. NULL: it has none. */
static char *read_name(const struct elfsymbols *s, const struct elffile *file, const struct function *f)
{
    const struct symbol_table *t = &s->tables[f->table];
    const struct elfpart *part = &file->parts[t->part];
    Elf64_Sym sym;
    char *name = NULL;
    if (read_at(part, t->symbols + f->symbol * sizeof sym, &sym, sizeof sym) < sizeof sym ||
        sym.st_name >= t->n_name_bytes)
        return NULL;
    for (size_t size = 256; size <= NAME_MAX_BYTES; size *= 16) {
        size_t n_left = t->n_name_bytes - sym.st_name, n = n_left < size ? n_left : size;
        char *larger = realloc(name, size + 1);
        if (!larger)
            break;
        name = larger;
        n = read_at(part, t->names + sym.st_name, name, n);
        name[n] = 0;
        if (strlen(name) < size)
            break;
    }
    if (name && *name)
        return name;
    free(name);
    return NULL;
}

/* Whether a symbol is no function. On aarch64 there is one at each change between code and data, whose name begins with
 * $. */
static bool is_mark(const struct elfsymbols *s, const struct elffile *file, struct function *f)
{
    if (f->group >= LABEL && !f->is_read) {
        char *name = read_name(s, file, f);
        f->group = name && *name != '$' ? f->group : MARK;
        f->is_read = true;
        free(name);
    }
    return f->group == MARK;
}

/* Of two names the one with fewer underscores in front is better, then the one of the longer function. */
static bool has_better_name(const struct elfsymbols *s, const struct elffile *file, const struct function *a,
                            const struct function *b)
{
    if (a->group != b->group)
        return a->group < b->group;
    char *x = read_name(s, file, a), *y = read_name(s, file, b);
    bool better = x && !y;
    if (x && y) {
        size_t n_x = strspn(x, "_"), n_y = strspn(y, "_");
        better = n_x != n_y ? n_x < n_y : a->n_bytes != b->n_bytes ? a->n_bytes > b->n_bytes : strcmp(x, y) < 0;
    }
    free(x);
    free(y);
    return better;
}

/* ---- looking up ------------------------------------------------------------------------------------------------- */

/* The nearest function of those met that holds an address: of known length, and of unknown length. */
struct nearest {
    const struct function *sized, *unsized;
    uint64_t start; /* of the nearest one of all */
    size_t n_met;
};

static void consider(struct nearest *near, const struct elfsymbols *s, const struct elffile *file, struct function *f,
                     uint64_t address)
{
    const struct function **best = f->n_bytes ? &near->sized : &near->unsized;
    if (is_mark(s, file, f))
        return;
    near->start = !near->n_met++ || f->start > near->start ? f->start : near->start;
    if (f->n_bytes && address - f->start >= f->n_bytes)
        return;
    if (!*best || f->start > (*best)->start || (f->start == (*best)->start && has_better_name(s, file, f, *best)))
        *best = f;
}

/*
 * The nearest function may end before the address and lie inside a larger one, so some more are visited. A function of
 * unknown length reaches to the next one. Such a one may be a label inside another, which is preferred.
 */
static const struct function *find(const struct elfsymbols *s, const struct elffile *file, uint64_t address)
{
    struct nearest near = {0};
    if (!s->n || address < s->least || address >= s->end)
        return NULL;
    for (size_t range = range_of(s, address) + 1; range-- && !near.sized && near.n_met < LOOK_BACK;)
        for (uint32_t i = s->newest[range]; i; i = s->older[i])
            if (s->functions[i].start <= address)
                consider(&near, s, file, &s->functions[i], address);
    bool reaches =
        near.unsized && near.unsized->start == near.start && (address < s->last || address - near.start < LAST_BYTES);
    return near.sized ? near.sized : reaches ? near.unsized : NULL;
}

static const char *name_of(struct elfsymbols *s, const struct elffile *file, const struct function *f)
{
    free(s->name);
    s->name = read_name(s, file, f);
    return s->name;
}

const char *dp_elffile_function(struct elffile *file, GElf_Addr pc)
{
    if (!file->symbols)
        file->symbols = collect(file, false);
    struct elfsymbols *s = file->symbols;
    const struct function *f = s ? find(s, file, pc - file->bias) : NULL;
    return f ? name_of(s, file, f) : NULL;
}

const char *dp_elffile_variable(struct elffile *file, GElf_Addr address, uint64_t *offset)
{
    uint64_t at = address - file->bias;
    if (!file->symbols)
        file->symbols = collect(file, false);
    if (!file->symbols || (at >= file->symbols->least && at < file->symbols->end))
        return NULL;
    if (!file->variables)
        file->variables = collect(file, true);
    struct elfsymbols *s = file->variables;
    const struct function *f = s ? find(s, file, at) : NULL;
    if (!f)
        return NULL;
    *offset = at - f->start;
    return name_of(s, file, f);
}
