/* SPDX-License-Identifier: MIT */
/*
 * host/report/published_trace.c - looks for a thread-local variable otel_thread_ctx_v1 in the dynamic symbols of all
 * loaded files, and tells hooks where it lies.
 *
 * The variable of a file that was loaded with the program is in the vector of modules of each thread. That of a file
 * which dlopen loaded may lie at a fixed distance from the thread pointer, and then the vector does not have it before
 * the thread used it in a certain way. Its distance is fixed if the address that the loader gives lies in the stack of
 * the calling thread: the loader puts such blocks there, and all others into the heap. The first thread's lie
 * elsewhere, so only another thread decides this: usually the profiler's own.
 */
#include "host/report/published_trace.h"

#include "base/atomic.h"
#include "host/symbols/symbol.h"
#include "host/table/trace_context.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char variable[] = "otel_thread_ctx_v1";

static _Atomic bool is_wanted;
static _Atomic uint64_t seen; /* the loader's counts at the last search that a later one cannot improve; 0: none */

struct search {
    uint64_t counted;
    struct dp_trace_place place; /* module 0: not found */
    char file[1024];             /* "": the program */
};

struct hash_table {
    uint32_t n_buckets, n_unhashed, n_bloom_words, bloom_shift;
    ElfW(Addr) bloom[];
};

static uint32_t hash_name(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static const ElfW(Sym) * find_symbol(const struct hash_table *table, const ElfW(Sym) * symbols, const char *strings)
{
    const unsigned bits = 8 * sizeof(ElfW(Addr));
    const uint32_t hash = hash_name(variable);
    ElfW(Addr) word = table->bloom[hash / bits % table->n_bloom_words];
    const uint32_t *buckets = (const uint32_t *)&table->bloom[table->n_bloom_words],
                   *chain = buckets + table->n_buckets;
    if (!(word >> hash % bits & word >> (hash >> table->bloom_shift) % bits & 1))
        return NULL;
    uint32_t i = buckets[hash % table->n_buckets];
    if (i < table->n_unhashed)
        return NULL;
    for (;; i++) {
        uint32_t other = chain[i - table->n_unhashed];
        if ((other | 1) == (hash | 1) && !strcmp(strings + symbols[i].st_name, variable))
            return &symbols[i];
        if (other & 1)
            return NULL;
    }
}

/* The loader has added the file's base to these addresses, except in files whose dynamic section is read-only. */
static const void *at_address(const struct dl_phdr_info *info, ElfW(Addr) address)
{
    return (const void *)(address < info->dlpi_addr ? address + info->dlpi_addr : address);
}

static const ElfW(Sym) * find_in_file(const struct dl_phdr_info *info, const ElfW(Dyn) * d)
{
    const struct hash_table *table = NULL;
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    for (; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_GNU_HASH)
            table = at_address(info, d->d_un.d_ptr);
        if (d->d_tag == DT_SYMTAB)
            symbols = at_address(info, d->d_un.d_ptr);
        if (d->d_tag == DT_STRTAB)
            strings = at_address(info, d->d_un.d_ptr);
    }
    return table && symbols && strings && table->n_buckets && table->n_bloom_words
               ? find_symbol(table, symbols, strings)
               : NULL;
}

static int search_file(struct dl_phdr_info *info, size_t n_bytes, void *arg)
{
    struct search *search = arg;
    const ElfW(Dyn) *dynamic = NULL;
    bool has_variables = false;
    search->counted = (uint64_t)info->dlpi_adds << 32 | (uint32_t)info->dlpi_subs;
    if (n_bytes < sizeof *info || search->counted == dp_load_relaxed(&seen))
        return 1;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        has_variables |= info->dlpi_phdr[i].p_type == PT_TLS;
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    }
    const ElfW(Sym) *symbol = has_variables && dynamic ? find_in_file(info, dynamic) : NULL;
    if (!symbol || symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_TLS ||
        symbol->st_value > INT32_MAX || info->dlpi_tls_modid > INT32_MAX)
        return 0;
    search->place = (struct dp_trace_place){(uint32_t)info->dlpi_tls_modid, (int32_t)symbol->st_value};
    strncat(search->file, info->dlpi_name ? info->dlpi_name : "", sizeof search->file - 1);
    return 2; /* the first one, as a reference by name would find */
}

static bool is_in_own_stack(uintptr_t address)
{
    pthread_attr_t attributes;
    void *start;
    size_t n_bytes;
    if (pthread_getattr_np(pthread_self(), &attributes))
        return false;
    bool known = !pthread_attr_getstack(&attributes, &start, &n_bytes);
    pthread_attr_destroy(&attributes);
    return known && address - (uintptr_t)start < n_bytes;
}

/* Sets the distance, if it is fixed. The file is asked for by its name, so that it stays loaded meanwhile. */
static void find_distance(struct search *search)
{
    /* Found by dlsym: a direct call makes the linker warn in static programs. */
    __typeof__(dlopen) *open_file = (__typeof__(dlopen) *)dlsym(RTLD_DEFAULT, "dlopen");
    void *file = open_file ? open_file(search->file, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *address = file ? dlsym(file, variable) : NULL;
    intptr_t distance = (intptr_t)((uintptr_t)address - dp_trace_context_thread_pointer());
    if (address && distance == (int32_t)distance && is_in_own_stack((uintptr_t)address))
        search->place = (struct dp_trace_place){0, (int32_t)distance};
    if (file)
        dlclose(file);
}

void dp_report_want_published_trace(bool wanted)
{
    dp_store_relaxed(&is_wanted, wanted);
}

void dp_report_find_published_trace(void)
{
    struct search search = {0};
    if (!dp_load_relaxed(&is_wanted) || dp_symbols_loader_unusable())
        return;
    int saved = errno;
    bool is_first_thread = syscall(SYS_gettid) == getpid();
    if (dl_iterate_phdr(search_file, &search) != 1) {
        bool may_be_fixed = search.place.module && search.file[0];
        if (may_be_fixed && !is_first_thread)
            find_distance(&search);
        dp_trace_context_place(search.place);
        dp_store_relaxed(&seen, may_be_fixed && is_first_thread ? 0 : search.counted);
    }
    errno = saved;
}
