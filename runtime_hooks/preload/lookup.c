/* SPDX-License-Identifier: MIT */
/*
 * lookup.c - finds functions of libc in libc's own symbol table, because dlsym for each of a hundred hooks is a large
 * part of what the profiler costs a short process.
 *
 * RTLD_NEXT takes the first definition behind this object, in the loader's search order, which is private. The order
 * does not matter for a name that only libc defines. So all loaded objects are asked for all names first. A name that
 * another object defines as well (a second allocator, another interposer, the program itself) stays unknown, and so
 * does one that libc defines in an unusual way: as an IFUNC, or without a single default version. The caller asks dlsym
 * for those.
 *
 * Only the loaded symbol tables are read, in memory. The loader changes its list of objects while another thread opens
 * or closes one, so nothing is looked up once the process has threads.
 */
#include "lookup.h"

#include "libc.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/single_threaded.h>

enum { NAMES_MOST = 128, HIDDEN = 0x8000 };

struct name {
    const char *text, *version;
    uint32_t hash;
    bool is_elsewhere; /* an object other than libc defines it */
};

/* The tables of an object: DT_GNU_HASH, symbols, versions. */
struct object {
    const char *strings, *soname;
    const ElfW(Sym) * symbols;
    const ElfW(Half) * versions;  /* of each symbol; NULL: none */
    const ElfW(Verdef) * verdefs; /* the versions that the object defines; NULL: none */
    const uint64_t *bloom;
    const uint32_t *buckets, *chains;
    uint32_t n_bloom, shift, n_buckets, n_unhashed;
};

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

/* The loader relocates these addresses in place, unless the section is read-only. */
static const void *address(const struct link_map *map, const ElfW(Dyn) * d)
{
    return (const void *)(d->d_un.d_ptr < map->l_addr ? d->d_un.d_ptr + map->l_addr : d->d_un.d_ptr);
}

/* False: it has no table of this kind. */
static bool read_object(const struct link_map *map, struct object *object)
{
    const uint32_t *hash = NULL;
    ElfW(Xword) soname = 0;
    *object = (struct object){0};
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++)
        switch (d->d_tag) {
        case DT_GNU_HASH:
            hash = address(map, d);
            break;
        case DT_STRTAB:
            object->strings = address(map, d);
            break;
        case DT_SYMTAB:
            object->symbols = address(map, d);
            break;
        case DT_VERSYM:
            object->versions = address(map, d);
            break;
        case DT_VERDEF:
            object->verdefs = address(map, d);
            break;
        case DT_SONAME:
            soname = d->d_un.d_val;
            break;
        }
    if (!hash || !object->strings || !object->symbols)
        return false;
    object->soname = soname ? object->strings + soname : "";
    object->n_buckets = hash[0];
    object->n_unhashed = hash[1];
    object->n_bloom = hash[2];
    object->shift = hash[3];
    object->bloom = (const uint64_t *)&hash[4];
    object->buckets = (const uint32_t *)&object->bloom[object->n_bloom];
    object->chains = &object->buckets[object->n_buckets];
    return object->n_buckets && object->n_bloom;
}

/* The next symbol of that name in its chain, from symbol i on; 0: there is none. */
static uint32_t next_of(const struct object *object, const struct name *name, uint32_t i)
{
    for (; i >= object->n_unhashed && i; i++) {
        uint32_t hash = object->chains[i - object->n_unhashed];
        if ((hash | 1) == (name->hash | 1) && !strcmp(object->strings + object->symbols[i].st_name, name->text))
            return i;
        if (hash & 1)
            break; /* the end of the chain */
    }
    return 0;
}

/* The same from another symbol's successor on. */
static uint32_t after(const struct object *object, const struct name *name, uint32_t i)
{
    return object->chains[i - object->n_unhashed] & 1 ? 0 : next_of(object, name, i + 1);
}

static uint32_t first_of(const struct object *object, const struct name *name)
{
    uint64_t word = object->bloom[name->hash / 64 & (object->n_bloom - 1)];
    if (!(word >> name->hash % 64 & word >> (name->hash >> object->shift) % 64 & 1))
        return 0;
    return next_of(object, name, object->buckets[name->hash % object->n_buckets]);
}

/* Whether the symbol has the version; "": whether its version is a default one. */
static bool has_version(const struct object *object, uint32_t i, const char *version)
{
    unsigned number = object->versions[i] & (HIDDEN - 1);
    if (!*version)
        return !(object->versions[i] & HIDDEN) && number > VER_NDX_GLOBAL;
    for (const ElfW(Verdef) *v = object->verdefs;; v = (const void *)((const char *)v + v->vd_next)) {
        const ElfW(Verdaux) *name = (const void *)((const char *)v + v->vd_aux);
        if (v->vd_ndx == number)
            return !strcmp(object->strings + name->vda_name, version);
        if (!v->vd_next)
            return false;
    }
}

static bool is_plain(const ElfW(Sym) * symbol)
{
    unsigned binding = ELF64_ST_BIND(symbol->st_info);
    return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && (binding == STB_GLOBAL || binding == STB_WEAK) &&
           ELF64_ST_VISIBILITY(symbol->st_other) == STV_DEFAULT && symbol->st_shndx != SHN_UNDEF &&
           symbol->st_shndx != SHN_ABS && symbol->st_value;
}

/* NULL: none, more than one, or one that is not plain. */
static void *function_of(const struct link_map *map, const struct object *libc, const struct name *name)
{
    void *found = NULL;
    for (uint32_t i = first_of(libc, name); i; i = after(libc, name, i)) {
        if (!has_version(libc, i, name->version))
            continue;
        if (found || !is_plain(&libc->symbols[i]))
            return NULL;
        found = (void *)(map->l_addr + libc->symbols[i].st_value);
    }
    return found;
}

/* Notes which names an object other than libc defines. *libc: the object that is libc. False: an object is unknown. */
static bool read_objects(struct name *names, size_t n, const struct link_map **libc, struct object *of_libc)
{
    bool found_self = false;
    uintptr_t vdso = getauxval(AT_SYSINFO_EHDR);
    *libc = NULL;
    for (const struct link_map *map = dp_libc_loader()->r_map; map; map = map->l_next) {
        struct object object;
        if (map->l_ld == _DYNAMIC)
            found_self = true;
        if (map->l_ld == _DYNAMIC || (vdso && map->l_addr == vdso)) /* the kernel's object is never searched */
            continue;
        if (!read_object(map, &object))
            return false;
        if (!strcmp(object.soname, "libc.so.6")) {
            if (*libc || !object.versions || !object.verdefs)
                return false;
            *libc = map;
            *of_libc = object;
            continue;
        }
        for (size_t i = 0; i < n; i++)
            names[i].is_elsewhere |= first_of(&object, &names[i]) != 0;
    }
    return found_self && *libc;
}

void dp_lookup_libc(const char *text, size_t n, void **found)
{
    struct name names[NAMES_MOST];
    const struct link_map *map;
    struct object libc;
    memset(found, 0, n * sizeof *found);
    if (!__libc_single_threaded || n > NAMES_MOST)
        return;
    for (size_t i = 0; i < n; i++) {
        const char *version = text + strlen(text) + 1;
        names[i] = (struct name){text, version, hash_of(text), false};
        text = version + strlen(version) + 1;
    }
    if (!read_objects(names, n, &map, &libc))
        return;
    for (size_t i = 0; i < n; i++)
        if (!names[i].is_elsewhere)
            found[i] = function_of(map, &libc, &names[i]);
}

void dp_lookup_debug(const char *text, size_t n, void **found)
{
    struct name name = {"malloc", "", hash_of("malloc"), false};
    struct object object;
    const struct link_map *map = __libc_single_threaded ? dp_libc_loader()->r_map : NULL;
    while (map && map->l_ld != _DYNAMIC)
        map = map->l_next;
    do
        map = map ? map->l_next : NULL;
    while (map && read_object(map, &object) && !first_of(&object, &name));
    if (!map || strcmp(object.soname, "libc_malloc_debug.so.0") != 0)
        return;
    for (size_t i = 0; i < n; i++) {
        name = (struct name){text, "", hash_of(text), false};
        uint32_t symbol = first_of(&object, &name);
        if (!found[i] && symbol && is_plain(&object.symbols[symbol]))
            found[i] = (void *)(map->l_addr + object.symbols[symbol].st_value);
        text += strlen(text) + 1;
        text += strlen(text) + 1;
    }
}

bool dp_lookup_may_be_exported(const char *text)
{
    struct name name = {text, "", hash_of(text), false};
    struct object program;
    return !read_object(dp_libc_loader()->r_map, &program) ||
           first_of(&program, &name); /* the first object is the program */
}

struct wanted {
    uintptr_t start, end;
    struct name name;
    void *found;
};

static int look_in(struct dl_phdr_info *info, size_t n_bytes, void *ctx)
{
    struct wanted *wanted = ctx;
    struct link_map map = {.l_addr = info->dlpi_addr};
    struct object object;
    (void)n_bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            map.l_ld = (ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    if (!map.l_ld || !read_object(&map, &object))
        return 0;
    for (uint32_t i = first_of(&object, &wanted->name); i; i = after(&object, &wanted->name, i)) {
        uintptr_t at = info->dlpi_addr + object.symbols[i].st_value;
        if (is_plain(&object.symbols[i]) && at >= wanted->start && at < wanted->end)
            wanted->found = (void *)at;
    }
    return wanted->found != NULL;
}

void *dp_lookup_within(const char *name, uintptr_t start, uintptr_t end)
{
    struct wanted wanted = {start, end, {name, "", hash_of(name), false}, NULL};
    dl_iterate_phdr(look_in, &wanted);
    return wanted.found;
}
