/* SPDX-License-Identifier: MIT */
/*
 * binary/binary.c - reads headers, needed libraries and symbol names of a program on disk.
 *
 * The file is not trusted: every offset is checked against the file's size, and data out of bounds counts as missing.
 * Only names are needed, so no ELF library is used.
 */
#include "binary/binary.h"

#include "binary/search.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#endif

enum { READ_MOST = 32 << 20 }; /* of a segment that is searched, since the program waits for it to start */

struct image {
    const unsigned char *bytes;
    size_t n_bytes;
};

/* n_bytes at offset, aligned enough for Elf64 types; NULL out of bounds. */
static const void *at(const struct image *image, uint64_t offset, uint64_t n_bytes)
{
    if (offset > image->n_bytes || n_bytes > image->n_bytes - offset || offset % 8)
        return NULL;
    return image->bytes + offset;
}

/* The string at an offset of a table; "" if it is out of bounds or has no NUL. */
static const char *string(const struct image *image, uint64_t table, uint64_t n_table, uint64_t offset)
{
    if (table > image->n_bytes || n_table > image->n_bytes - table || offset >= n_table)
        return "";
    const char *text = (const char *)image->bytes + table + offset;
    return memchr(text, 0, n_table - offset) ? text : "";
}

/* A table of strings, without what stands behind its last NUL. */
struct text_table {
    const char *text;
    size_t n;
};

static struct text_table text_table(const struct image *image, const Elf64_Shdr *strings)
{
    if (strings->sh_offset > image->n_bytes || strings->sh_size > image->n_bytes - strings->sh_offset)
        return (struct text_table){"", 0};
    struct text_table table = {(const char *)image->bytes + strings->sh_offset, strings->sh_size};
    while (table.n && table.text[table.n - 1])
        table.n--;
    return table;
}

static void copy(char *to, size_t n_to, const char *from)
{
    size_t n = strnlen(from, n_to - 1);
    memcpy(to, from, n);
    to[n] = 0;
}

static bool names_sanitizer_library(const char *name)
{
    static const char *const libraries[] = {"libasan.so", "libhwasan.so", "liblsan.so", "libtsan.so", "libclang_rt."};
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++)
        if (!strncmp(name, libraries[i], strlen(libraries[i])))
            return strncmp(name, "libclang_rt.ubsan", 17) != 0;
    return false;
}

/* Whether the name shows that a sanitizer is linked in, with its own allocator. */
static bool names_sanitizer_symbol(const char *name)
{
    static const char *const symbols[] = {"__asan_init", "__hwasan_init", "__lsan_init", "__msan_init", "__tsan_init"};
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++)
        if (!strcmp(name, symbols[i]))
            return true;
    return false;
}

static void read_needed(const struct image *image, const Elf64_Phdr *phdr, size_t n_phdr, const Elf64_Phdr *dynamic,
                        struct dp_binary *elf)
{
    const Elf64_Dyn *dyn = at(image, dynamic->p_offset, dynamic->p_filesz);
    size_t n = dyn ? dynamic->p_filesz / sizeof *dyn : 0;
    uint64_t strtab = 0, n_strtab = 0;
    for (size_t i = 0; i < n && dyn[i].d_tag != DT_NULL; i++) {
        if (dyn[i].d_tag == DT_STRTAB)
            strtab = dyn[i].d_un.d_ptr;
        else if (dyn[i].d_tag == DT_STRSZ)
            n_strtab = dyn[i].d_un.d_val;
    }
    uint64_t offset = 0;
    for (size_t i = 0; i < n_phdr; i++)
        if (phdr[i].p_type == PT_LOAD && strtab >= phdr[i].p_vaddr && strtab - phdr[i].p_vaddr < phdr[i].p_filesz)
            offset = strtab - phdr[i].p_vaddr + phdr[i].p_offset;
    for (size_t i = 0; i < n && dyn[i].d_tag != DT_NULL; i++) {
        const char *name = dyn[i].d_tag == DT_NEEDED ? string(image, offset, n_strtab, dyn[i].d_un.d_val) : "";
        if (names_sanitizer_library(name))
            copy(elf->sanitizer, sizeof elf->sanitizer, name);
    }
}

/* An allocator may be built with a prefix for its names; _rjem_ is the prefix of Rust's jemalloc. */
static bool names_own_malloc(const char *name)
{
    static const char *const names[] = {"je_malloc", "_rjem_malloc", "tc_malloc", "mi_malloc"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

/*
 * Hooks of jemalloc or tcmalloc are installed by one function, which is believed to be theirs only if another name
 * shows that too, as runtime_hooks/preload/inside.c does it. A jemalloc optimized at link time may lack the second.
 */
enum { INSTALLS_HOOKS = 1, IS_KNOWN = 2 };

/* Names that tell what is inside, besides these. Abseil has a section of the name of PartitionAlloc's. */
enum { HAS_ABSEIL = 4, HAS_PARTITION_ALLOC = 8, HAS_V8 = 16 };

/* Parts of names. rare: as for dp_binary_search. */
enum { PARTITION_ALLOC, ABSEIL, JEMALLOC_HOOK, MALLCTL, N_PARTS };
static const struct {
    const char *text;
    size_t rare;
} parts[N_PARTS] = {
    {"partition_alloc", 8}, {"base_internal13LowLevelAlloc", 13}, {"je_hook_install", 6}, {"mallctlbymib", 5}};

static bool has_part(const char *name, unsigned part)
{
    return strstr(name, parts[part].text) != NULL;
}

static unsigned runtime_by_name(const char *name)
{
    return has_part(name, PARTITION_ALLOC)        ? HAS_PARTITION_ALLOC
           : has_part(name, ABSEIL)               ? HAS_ABSEIL
           : !strncmp(name, "_ZN2v87Isolate", 14) ? HAS_V8
                                                  : 0;
}

static unsigned hooks_by_name(const char *name)
{
    static const char *const names[] = {"mallctl", "je_mallctl", "_rjem_mallctl", "MallocHook_AddNewHook"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(name, names[i]))
            return INSTALLS_HOOKS;
    return has_part(name, JEMALLOC_HOOK) || has_part(name, MALLCTL) || !strncmp(name, "_ZN8tcmalloc", 12) ||
                   !strcmp(name, "MallocHook_RemoveNewHook")
               ? IS_KNOWN
               : 0;
}

/* Whether any of the parts stands in a table of names. */
static bool has_parts(const char *names, size_t n)
{
    for (unsigned i = 0; i < N_PARTS; i++)
        if (dp_binary_search(names, n, parts[i].text, strlen(parts[i].text), parts[i].rare))
            return true;
    return false;
}

/* Whether a name can be one of those that are asked for from their beginning: most names of C++ are not. */
static bool may_matter(const char *name)
{
    if (name[0] != '_')
        return name[0] && strchr("mjtMPJ", name[0]);
    return name[1] == '_' || name[1] == 'r' || !strncmp(name, "_ZN8t", 5) || !strncmp(name, "_ZN2v", 5);
}

static void read_symbols(const struct image *image, const Elf64_Shdr *table, const Elf64_Shdr *strings,
                         struct dp_binary *elf, unsigned *known)
{
    struct text_table names = text_table(image, strings);
    const Elf64_Sym *symbol = at(image, table->sh_offset, table->sh_size);
    size_t n = symbol ? table->sh_size / sizeof *symbol : 0;
    bool all = has_parts(names.text, names.n);
    for (size_t i = 1; i < n; i++) {
        unsigned type = ELF64_ST_TYPE(symbol[i].st_info);
        bool defined = symbol[i].st_shndx != SHN_UNDEF;
        if (symbol[i].st_name >= names.n || (type != STT_FUNC && type != STT_GNU_IFUNC && defined))
            continue;
        const char *name = names.text + symbol[i].st_name;
        if (!all && !may_matter(name))
            continue;
        /* a weak reference: the program only tests whether the function exists */
        bool asks = !defined && ELF64_ST_BIND(symbol[i].st_info) == STB_WEAK;
        if (names_sanitizer_symbol(name) && !asks) {
            copy(elf->sanitizer, sizeof elf->sanitizer, name);
        } else if (!strcmp(name, "malloc") && defined) {
            if (strcmp(elf->own_malloc, "tcmalloc"))
                copy(elf->own_malloc, sizeof elf->own_malloc, name);
            elf->own_exported |= table->sh_type == SHT_DYNSYM;
        } else if (!*elf->own_malloc && names_own_malloc(name)) {
            copy(elf->own_malloc, sizeof elf->own_malloc, name);
        } else if (defined && hooks_by_name(name)) {
            *known |= hooks_by_name(name);
        } else if (!strcmp(name, "PyMem_SetAllocator") && defined) {
            elf->is_python = true;
        } else if (!strcmp(name, "JLI_Launch") || !strcmp(name, "JNI_CreateJavaVM")) {
            elf->runtime = DP_BINARY_RUNTIME_JAVA;
        } else {
            *known |= runtime_by_name(name);
        }
    }
}

/* Go, Chromium's allocator and tcmalloc have sections with special names, which strip keeps. */
static void read_section_name(const char *name, struct dp_binary *elf)
{
    if (!strcmp(name, ".go.buildinfo") || !strcmp(name, ".gopclntab"))
        elf->runtime = DP_BINARY_RUNTIME_GO;
    else if (!strcmp(name, "google_malloc"))
        copy(elf->own_malloc, sizeof elf->own_malloc, "tcmalloc");
    else if (!strcmp(name, "malloc_hook") && !elf->runtime)
        elf->runtime = DP_BINARY_RUNTIME_PARTITION_ALLOC;
}

/* jemalloc and mimalloc without symbols are recognized by the beginning of their messages. */
static void read_messages(const struct image *image, const Elf64_Phdr *p, struct dp_binary *elf)
{
    static const struct {
        const char *format, *name;
        size_t rare; /* "<j", "c:" */
    } allocators[] = {{"<%s>: ", "jemalloc", 0}, {"%s: warning: ", "mimalloc", 7}};
    char message[32]; /* built here, so that the file of this program does not contain it */
    if (p->p_offset > image->n_bytes || p->p_filesz > image->n_bytes - p->p_offset)
        return;
    size_t n = p->p_filesz < READ_MOST ? p->p_filesz : READ_MOST;
    for (size_t i = 0; i < sizeof allocators / sizeof allocators[0]; i++) {
        snprintf(message, sizeof message, allocators[i].format, allocators[i].name);
        if (dp_binary_search(image->bytes + p->p_offset, n, message, strlen(message), allocators[i].rare))
            copy(elf->own_malloc, sizeof elf->own_malloc, allocators[i].name);
    }
}

static void read_image(const struct image *image, struct dp_binary *elf)
{
    elf->is_elf = image->n_bytes >= SELFMAG && !memcmp(image->bytes, ELFMAG, SELFMAG);
    const Elf64_Ehdr *ehdr = elf->is_elf ? at(image, 0, sizeof *ehdr) : NULL;
    elf->is_ours = ehdr && ehdr->e_ident[EI_CLASS] == ELFCLASS64 && ehdr->e_ident[EI_DATA] == ELFDATA2LSB &&
                   ehdr->e_machine == OUR_MACHINE;
    if (!elf->is_ours) {
        elf->is_cut = elf->is_elf && !ehdr && (image->n_bytes <= EI_CLASS || image->bytes[EI_CLASS] == ELFCLASS64);
        return;
    }

    size_t n_phdr = ehdr->e_phentsize == sizeof(Elf64_Phdr) ? ehdr->e_phnum : 0;
    const Elf64_Phdr *phdr = at(image, ehdr->e_phoff, n_phdr * sizeof *phdr);
    elf->is_cut = !phdr;
    for (size_t i = 0; phdr && i < n_phdr; i++) {
        if (phdr[i].p_type == PT_LOAD && phdr[i].p_filesz &&
            (phdr[i].p_offset > image->n_bytes || phdr[i].p_filesz > image->n_bytes - phdr[i].p_offset))
            elf->is_cut = true;
        if (phdr[i].p_type == PT_INTERP)
            copy(elf->interp, sizeof elf->interp, string(image, phdr[i].p_offset, phdr[i].p_filesz, 0));
        else if (phdr[i].p_type == PT_DYNAMIC)
            read_needed(image, phdr, n_phdr, &phdr[i], elf);
    }

    size_t n_shdr = ehdr->e_shentsize == sizeof(Elf64_Shdr) ? ehdr->e_shnum : 0;
    const Elf64_Shdr *shdr = at(image, ehdr->e_shoff, n_shdr * sizeof *shdr);
    const Elf64_Shdr *names = shdr && ehdr->e_shstrndx < n_shdr ? &shdr[ehdr->e_shstrndx] : NULL;
    for (size_t i = 0; names && i < n_shdr; i++)
        read_section_name(string(image, names->sh_offset, names->sh_size, shdr[i].sh_name), elf);
    unsigned known = 0;
    for (size_t i = 0; shdr && i < n_shdr; i++)
        if ((shdr[i].sh_type == SHT_DYNSYM || shdr[i].sh_type == SHT_SYMTAB) && shdr[i].sh_link < n_shdr)
            read_symbols(image, &shdr[i], &shdr[shdr[i].sh_link], elf, &known);
    elf->own_hooked = (known & (INSTALLS_HOOKS | IS_KNOWN)) == (INSTALLS_HOOKS | IS_KNOWN);
    if (elf->runtime == DP_BINARY_RUNTIME_PARTITION_ALLOC && (known & HAS_ABSEIL) && !(known & HAS_PARTITION_ALLOC))
        elf->runtime = DP_BINARY_RUNTIME_NONE;
    if (!elf->runtime && (known & HAS_V8))
        elf->runtime = DP_BINARY_RUNTIME_V8;
    for (size_t i = 0; phdr && i < n_phdr && (!*elf->own_malloc || !strcmp(elf->own_malloc, "malloc")); i++)
        if (phdr[i].p_type == PT_LOAD && !(phdr[i].p_flags & PF_X))
            read_messages(image, &phdr[i], elf);
    if (elf->is_python && (!strcmp(elf->own_malloc, "mimalloc") || !strcmp(elf->own_malloc, "mi_malloc")))
        elf->own_malloc[0] = 0;
    if (elf->runtime == DP_BINARY_RUNTIME_PARTITION_ALLOC && !strcmp(elf->own_malloc, "tcmalloc"))
        elf->runtime = DP_BINARY_RUNTIME_NONE;
}

int dp_binary_read(const char *path, struct dp_binary *elf)
{
    memset(elf, 0, sizeof *elf);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int result = 0;
    struct stat st;
    if (fstat(fd, &st)) {
        result = -errno;
        goto out;
    }
    if (st.st_size == 0)
        goto out;
    struct image image = {.n_bytes = (size_t)st.st_size};
    void *bytes = mmap(NULL, image.n_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) {
        result = -errno;
        goto out;
    }
    image.bytes = bytes;
    read_image(&image, elf);
    munmap(bytes, image.n_bytes);
out:
    close(fd);
    return result;
}
