/* SPDX-License-Identifier: MIT */
/*
 * base/vdso.c - looks a name up in the symbol table of the kernel's object, by its place in memory. The loader is not
 * asked: it takes locks, and a name that it finds may be the program's own.
 */
#include "base/vdso.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

struct object {
    uintptr_t bias; /* added to the addresses in the object */
    const char *strings;
    const ElfW(Sym) * symbols;
    uint32_t n_symbols;
};

/* The table of hashes has no number of symbols: they end with the last chain. */
static uint32_t count_hashed(const uint32_t *hash)
{
    uint32_t n_buckets = hash[0], n_unhashed = hash[1], last = 0;
    const uint32_t *buckets = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / sizeof *hash);
    for (uint32_t i = 0; i < n_buckets; i++)
        last = buckets[i] > last ? buckets[i] : last;
    if (last < n_unhashed)
        return n_unhashed;
    while (!(buckets[n_buckets + last - n_unhashed] & 1))
        last++;
    return last + 1;
}

static void read_dynamic(struct object *o, const ElfW(Dyn) * d)
{
    for (; d->d_tag != DT_NULL; d++) {
        uintptr_t at = d->d_un.d_ptr < o->bias ? d->d_un.d_ptr + o->bias : d->d_un.d_ptr;
        if (d->d_tag == DT_STRTAB)
            o->strings = (const char *)at;
        if (d->d_tag == DT_SYMTAB)
            o->symbols = (const ElfW(Sym) *)at;
        if (d->d_tag == DT_HASH)
            o->n_symbols = ((const uint32_t *)at)[1];
        if (d->d_tag == DT_GNU_HASH && !o->n_symbols)
            o->n_symbols = count_hashed((const uint32_t *)at);
    }
}

static uintptr_t find(const struct object *o, const char *name)
{
    for (uint32_t i = 0; o->strings && o->symbols && i < o->n_symbols; i++)
        if (o->symbols[i].st_shndx != SHN_UNDEF && !strcmp(o->strings + o->symbols[i].st_name, name))
            return o->bias + o->symbols[i].st_value;
    return 0;
}

dp_vdso_clock_fn dp_vdso_clock(void)
{
    const ElfW(Ehdr) *ehdr = (const ElfW(Ehdr) *)getauxval(AT_SYSINFO_EHDR);
    struct object o = {0};
    if (!ehdr)
        return NULL;
    const ElfW(Phdr) *phdr = (const void *)((const char *)ehdr + ehdr->e_phoff), *dynamic = NULL;
    for (size_t i = 0; i < ehdr->e_phnum; i++) {
        if (phdr[i].p_type == PT_LOAD && !o.bias)
            o.bias = (uintptr_t)ehdr + phdr[i].p_offset - phdr[i].p_vaddr;
        if (phdr[i].p_type == PT_DYNAMIC)
            dynamic = &phdr[i];
    }
    if (dynamic)
        read_dynamic(&o, (const ElfW(Dyn) *)(o.bias + dynamic->p_vaddr));
    uintptr_t found = find(&o, "__vdso_clock_gettime");
    return (dp_vdso_clock_fn)(found ? found : find(&o, "__kernel_clock_gettime"));
}
