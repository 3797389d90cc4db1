/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/dynamic_symbol.c - looks a symbol up in one loaded file, where dlsym would search the files that it
 * needs too.
 *
 * DT_GNU_HASH has a word for each symbol from the first hashed one on, its hash without the lowest bit; that bit ends a
 * chain. The file's Bloom filter is not asked, because a look-up is rare.
 */
#include "host/symbols/dynamic_symbol.h"

#include <string.h>

/* The start of DT_GNU_HASH. Then come the words of the Bloom filter, the buckets and the chains. */
struct hash_table {
    uint32_t n_buckets, first_hashed, n_bloom_words, bloom_shift;
    ElfW(Addr) bloom[];
};

struct dynamic {
    const struct hash_table *table;
    const ElfW(Sym) * symbols;
    const char *strings;
};

static uint32_t hash_name(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static struct dynamic read_dynamic(const struct dl_phdr_info *info, const ElfW(Dyn) * d)
{
    struct dynamic found = {0};
    for (; d->d_tag != DT_NULL; d++) {
        /* The loader has added the file's base to it, except if the section is read-only, as in the kernel's file. */
        uintptr_t at = d->d_un.d_ptr + (d->d_un.d_ptr < info->dlpi_addr ? info->dlpi_addr : 0);
        if (d->d_tag == DT_GNU_HASH)
            found.table = (const struct hash_table *)at;
        else if (d->d_tag == DT_SYMTAB)
            found.symbols = (const ElfW(Sym) *)at;
        else if (d->d_tag == DT_STRTAB)
            found.strings = (const char *)at;
    }
    return found;
}

static const ElfW(Sym) * find_symbol(const struct dynamic *in, const char *name)
{
    const struct hash_table *table = in->table;
    if (!table || !in->symbols || !in->strings || !table->n_buckets)
        return NULL;
    const uint32_t *buckets = (const uint32_t *)&table->bloom[table->n_bloom_words],
                   *chain = buckets + table->n_buckets;
    uint32_t hash = hash_name(name), i = buckets[hash % table->n_buckets];
    if (i < table->first_hashed) /* an empty bucket */
        return NULL;
    for (;; i++) {
        const ElfW(Sym) *symbol = &in->symbols[i];
        uint32_t other = chain[i - table->first_hashed];
        if ((other | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF && !strcmp(in->strings + symbol->st_name, name))
            return symbol;
        if (other & 1)
            return NULL;
    }
}

const ElfW(Sym) * dp_symbols_dynamic_find(const struct dl_phdr_info *info, const char *name)
{
    const ElfW(Sym) *found = NULL;
    for (size_t i = 0; i < info->dlpi_phnum && !found; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            struct dynamic dynamic =
                read_dynamic(info, (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr));
            found = find_symbol(&dynamic, name);
        }
    return found;
}
