/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/jit_debug.c - reads the list that a compiler at run time keeps for debuggers: __jit_debug_descriptor
 * leads to entries, each with an ELF file in memory whose symbols name the code.
 *
 * The program may change the list and free its files at any time. So they are read by process_vm_readv, which returns
 * an error where memory is gone, and each file is copied before it is parsed; every offset in the copy is checked. The
 * number of entries and the bytes of files are bounded. An inconsistent list gives no names, or old ones.
 *
 * Source: GDB manual, "JIT Compilation Interface".
 */
#include "host/symbols/jit_debug.h"

#include "base/hash.h"
#include "base/mem.h"
#include "host/symbols/dynamic_symbol.h"
#include "host/symbols/symbol.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ENTRIES_MAX = 1 << 16, NAME_MAX_BYTES = 1024 };
#define FILE_BYTES_MAX ((size_t)16 << 20)
#define ALL_BYTES_MAX  ((size_t)64 << 20)

/* Both are part of the interface. */
struct descriptor {
    uint32_t version, action;
    uintptr_t relevant, first;
};
struct entry {
    uintptr_t next, previous, file;
    uint64_t n_bytes;
};

static struct {
    uintptr_t descriptor; /* 0: not found yet */
    uint64_t loaded;      /* objects that the loader had added when it was looked for in vain */
    uint64_t list;        /* hash of the entries that were read; 0: none */
    DP_VEC(struct piece {
        uintptr_t start;
        uint64_t n_bytes;
        uint32_t name; /* its place in `names` */
    })
    pieces;
    DP_VEC(char) names;
} jit;

static bool copy(void *to, uintptr_t from, size_t n_bytes)
{
    struct iovec here = {to, n_bytes}, there = {(void *)from, n_bytes};
    return syscall(SYS_process_vm_readv, getpid(), &here, 1UL, &there, 1UL, 0UL) == (long)n_bytes;
}

/* ---- the descriptor --------------------------------------------------------------------------------------------- */

static int find_descriptor(struct dl_phdr_info *info, size_t n_bytes, void *ctx)
{
    uint64_t *loaded = ctx;
    if (info->dlpi_adds == jit.loaded)
        return 1;
    *loaded = info->dlpi_adds;
    const Elf64_Sym *symbol = dp_symbols_dynamic_find(info, "__jit_debug_descriptor");
    jit.descriptor = symbol ? info->dlpi_addr + symbol->st_value : 0;
    return jit.descriptor != 0;
}

static bool has_descriptor(void)
{
    if (!jit.descriptor && !dp_symbols_loader_unusable()) {
        uint64_t loaded = jit.loaded;
        dl_iterate_phdr(find_descriptor, &loaded);
        jit.loaded = loaded;
    }
    return jit.descriptor != 0;
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

struct file {
    const char *bytes;
    size_t n_bytes;
};

/* The n_bytes at an offset of the file, NULL: it does not have them. */
static const void *part(const struct file *file, uint64_t offset, uint64_t n_bytes)
{
    return offset <= file->n_bytes && n_bytes <= file->n_bytes - offset && offset % 8 == 0 ? file->bytes + offset
                                                                                           : NULL;
}

/* False: no memory. */
static bool add(uintptr_t start, uint64_t n_bytes, const char *name, size_t n_name)
{
    char *text = dp_vec_room(&jit.names, n_name + 1);
    struct piece *piece = text ? dp_vec_push(&jit.pieces) : NULL;
    if (!piece)
        return false;
    memcpy(text, name, n_name);
    text[n_name] = 0;
    *piece = (struct piece){start, n_bytes, (uint32_t)jit.names.n};
    jit.names.n += n_name + 1;
    return true;
}

static bool add_symbols(const struct file *file, const Elf64_Ehdr *ehdr, const Elf64_Shdr *sections,
                        const Elf64_Shdr *table)
{
    const Elf64_Shdr *strings = table->sh_link < ehdr->e_shnum ? &sections[table->sh_link] : NULL;
    const Elf64_Sym *symbols = part(file, table->sh_offset, table->sh_size);
    const char *names = file->bytes + (strings ? strings->sh_offset : 0);
    if (!strings || !symbols || strings->sh_offset > file->n_bytes ||
        strings->sh_size > file->n_bytes - strings->sh_offset)
        return true;
    for (size_t i = 0; i < table->sh_size / sizeof *symbols; i++) {
        const Elf64_Sym *s = &symbols[i];
        if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || !s->st_size || s->st_name >= strings->sh_size)
            continue;
        bool in_section = s->st_shndx && s->st_shndx < ehdr->e_shnum;
        if (ehdr->e_type == ET_REL && !in_section)
            continue;
        size_t n_name = strnlen(names + s->st_name, strings->sh_size - s->st_name);
        uintptr_t start = s->st_value + (ehdr->e_type == ET_REL ? sections[s->st_shndx].sh_addr : 0);
        if (n_name && n_name < NAME_MAX_BYTES && !add(start, s->st_size, names + s->st_name, n_name))
            return false;
    }
    return true;
}

static bool add_file(const struct file *file)
{
    const Elf64_Ehdr *ehdr = part(file, 0, sizeof *ehdr);
    if (!ehdr || memcmp(ehdr->e_ident, ELFMAG, SELFMAG) != 0 || ehdr->e_ident[EI_CLASS] != ELFCLASS64 ||
        ehdr->e_shentsize != sizeof(Elf64_Shdr))
        return true;
    const Elf64_Shdr *sections = part(file, ehdr->e_shoff, ehdr->e_shnum * sizeof *sections);
    bool room = true;
    for (size_t i = 0; sections && i < ehdr->e_shnum && room; i++)
        if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_entsize == sizeof(Elf64_Sym))
            room = add_symbols(file, ehdr, sections, &sections[i]);
    return room;
}

static bool read_file(const struct entry *entry)
{
    char *bytes = dp_mem_map(entry->n_bytes);
    bool room = bytes != NULL;
    if (room && copy(bytes, entry->file, entry->n_bytes))
        room = add_file(&(struct file){bytes, entry->n_bytes});
    dp_mem_unmap(bytes, entry->n_bytes);
    return room;
}

/* ---- the list --------------------------------------------------------------------------------------------------- */

/* Follows the list; with `reads`, reads its files. Returns a hash of it, 0: there is none. */
static uint64_t follow(bool reads)
{
    struct descriptor descriptor;
    struct entry entry;
    uint64_t hash = 0, n_bytes = 0;
    if (!copy(&descriptor, jit.descriptor, sizeof descriptor) || descriptor.version != 1)
        return 0;
    uintptr_t at = descriptor.first;
    for (int i = 0; at && i < ENTRIES_MAX && copy(&entry, at, sizeof entry); i++, at = entry.next) {
        hash = dp_hash_mix(hash ^ at) ^ dp_hash_mix(entry.file + entry.n_bytes);
        if (!reads || !entry.n_bytes || entry.n_bytes > FILE_BYTES_MAX || n_bytes > ALL_BYTES_MAX)
            continue;
        n_bytes += entry.n_bytes;
        if (!read_file(&entry))
            break;
    }
    return hash;
}

void dp_symbols_jit_debug_refresh(void)
{
    if (!has_descriptor())
        return;
    uint64_t list = follow(false);
    if (list == jit.list)
        return;
    jit.list = list;
    dp_vec_clear(&jit.pieces);
    dp_vec_clear(&jit.names);
    follow(true);
}

bool dp_symbols_jit_debug_find(uintptr_t pc, struct dp_symbol_line *line)
{
    for (size_t i = 0; i < jit.pieces.n; i++) {
        const struct piece *piece = &jit.pieces.at[i];
        if (pc - piece->start >= piece->n_bytes)
            continue;
        *line = (struct dp_symbol_line){.name = jit.names.at + piece->name};
        return true;
    }
    return false;
}

void dp_symbols_jit_debug_abandon(void)
{
    memset(&jit, 0, sizeof jit);
}
