/* SPDX-License-Identifier: MIT */
/*
 * inside_names.c - reads the functions of the running executable from its file.
 *
 * The loader knows exported functions only; an allocator that was linked in is seldom exported. Most programs have no
 * such allocator, so the table of names is searched as one text first. A stripped program has the loader's table only,
 * where names are found by their hash. A program with less code than such an allocator has is not read at all. The file
 * is the running program's, but every offset is checked against its size.
 */
#include "inside.h"
#include "libc.h"
#include "lookup.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CODE_MIN = 48 << 10 }; /* the least code of an allocator: a third of what gperftools' smallest one has */

struct image {
    const char *bytes;
    size_t n_bytes;
};

static const void *at(const struct image *image, uint64_t offset, uint64_t n_bytes)
{
    if (offset > image->n_bytes || n_bytes > image->n_bytes - offset || offset % 8)
        return NULL;
    return image->bytes + offset;
}

/* The names of a symbol table, which end with a NUL; NULL: they are out of bounds. */
static const char *names_of(const struct image *image, const Elf64_Shdr *shdr, size_t n_shdr, const Elf64_Shdr *table,
                            size_t *n)
{
    const Elf64_Shdr *names = table->sh_link < n_shdr ? &shdr[table->sh_link] : NULL;
    if (!names || names->sh_offset > image->n_bytes || names->sh_size > image->n_bytes - names->sh_offset ||
        names->sh_size == 0 || image->bytes[names->sh_offset + names->sh_size - 1])
        return NULL;
    *n = names->sh_size;
    return image->bytes + names->sh_offset;
}

static bool mentions_allocator(const char *names, size_t n)
{
    static const char jemalloc[] = "mallctl", tcmalloc[] = "MallocHook_AddNewHook";
    return memmem(names, n, jemalloc, sizeof jemalloc) || memmem(names, n, tcmalloc, sizeof tcmalloc);
}

static bool exports_one_of(const char *const *names)
{
    while (*names && !dp_lookup_may_be_exported(*names))
        names++;
    return *names != NULL;
}

static bool is_code(const struct image *image, const Elf64_Ehdr *ehdr, const Elf64_Sym *symbol)
{
    const Elf64_Phdr *phdr = at(image, ehdr->e_phoff, ehdr->e_phnum * sizeof *phdr);
    for (size_t i = 0; phdr && i < ehdr->e_phnum; i++)
        if (phdr[i].p_type == PT_LOAD && phdr[i].p_flags & PF_X && symbol->st_value >= phdr[i].p_vaddr &&
            symbol->st_value - phdr[i].p_vaddr < phdr[i].p_memsz)
            return true;
    return false;
}

static void read_image(const struct image *image, const char *const *entries,
                       void (*fn)(void *, const struct dp_inside_function *), void *ctx)
{
    const Elf64_Ehdr *ehdr = at(image, 0, sizeof *ehdr);
    uintptr_t bias = dp_libc_loader()->r_map->l_addr; /* the first object is the program */
    /* started as an argument of ld.so, or replaced on disk: the file is another one */
    if (!ehdr || memcmp(ehdr->e_ident, ELFMAG, SELFMAG) || ehdr->e_ident[EI_CLASS] != ELFCLASS64 ||
        ehdr->e_entry + bias != getauxval(AT_ENTRY) || ehdr->e_shentsize != sizeof(Elf64_Shdr))
        return;
    size_t n_shdr = ehdr->e_shnum, n_names = 0;
    const Elf64_Shdr *shdr = at(image, ehdr->e_shoff, n_shdr * sizeof *shdr), *table = NULL;
    for (size_t i = 0; shdr && i < n_shdr; i++)
        if (shdr[i].sh_type == SHT_SYMTAB || (shdr[i].sh_type == SHT_DYNSYM && !table))
            table = &shdr[i];
    if (table && table->sh_type == SHT_DYNSYM && !exports_one_of(entries))
        return;
    const char *names = table ? names_of(image, shdr, n_shdr, table, &n_names) : NULL;
    const Elf64_Sym *symbols = names ? at(image, table->sh_offset, table->sh_size) : NULL;
    if (!symbols || !mentions_allocator(names, n_names))
        return;
    const char *file = ""; /* of the local symbols that follow; "": they were global and hidden */
    for (size_t i = 0; i < table->sh_size / sizeof *symbols; i++) {
        const Elf64_Sym *symbol = &symbols[i];
        if (ELF64_ST_TYPE(symbol->st_info) == STT_FILE && symbol->st_name < n_names)
            file = names + symbol->st_name;
        if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF || symbol->st_name >= n_names ||
            !is_code(image, ehdr, symbol))
            continue;
        uintptr_t start = symbol->st_value + bias;
        /* lld makes hidden symbols local and leaves them where they are: the file before them may be another one's */
        bool is_local =
            ELF64_ST_BIND(symbol->st_info) == STB_LOCAL && ELF64_ST_VISIBILITY(symbol->st_other) == STV_DEFAULT;
        const struct dp_inside_function function = {names + symbol->st_name, is_local && *file ? file : NULL, start,
                                                    start + symbol->st_size};
        fn(ctx, &function);
    }
}

/* The bytes of code in the executable, by the program headers that the kernel shows. */
static size_t code_bytes(void)
{
    const ElfW(Phdr) *phdr = (const void *)getauxval(AT_PHDR);
    size_t n = phdr ? getauxval(AT_PHNUM) : 0, n_bytes = phdr ? 0 : CODE_MIN;
    for (size_t i = 0; i < n; i++)
        if (phdr[i].p_type == PT_LOAD && phdr[i].p_flags & PF_X)
            n_bytes += phdr[i].p_memsz;
    return n_bytes;
}

void dp_inside_each(const char *const *entries, void (*fn)(void *ctx, const struct dp_inside_function *), void *ctx)
{
    struct stat st;
    if (code_bytes() < CODE_MIN)
        return;
    int saved_errno = errno, fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
        struct image image = {.n_bytes = (size_t)st.st_size};
        void *bytes = mmap(NULL, image.n_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes != MAP_FAILED) {
            image.bytes = bytes;
            read_image(&image, entries, fn, ctx);
            munmap(bytes, image.n_bytes);
        }
    }
    if (fd >= 0)
        close(fd);
    errno = saved_errno;
}
