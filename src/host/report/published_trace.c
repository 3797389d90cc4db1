/* SPDX-License-Identifier: MIT */
/*
 * host/report/published_trace.c - finds the thread-local variable otel_thread_ctx_v1 in the dynamic symbols of the
 * loaded files, and passes its place to the hooks (host/table/trace_context.h).
 *
 * A thread has its variables in blocks, one for each loaded file. Hooks reach a block in one of two ways:
 *  - by the thread's vector of modules (dtv). It always has the blocks of the files that were loaded with the program;
 *  - by a fixed distance from the thread pointer. The block of a file that dlopen loaded may be there. The vector may
 *    lack such a block, because an access by the distance does not enter it.
 *
 * The loader puts blocks at a fixed distance on the thread's stack, and all others on the heap. So the distance is
 * fixed if the variable of the calling thread lies on that thread's stack. The blocks of the first thread are never on
 * its stack. So it cannot tell; another thread, usually one of the profiler, has to.
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

static const char variable_name[] = "otel_thread_ctx_v1";

static _Atomic bool is_wanted;
static _Atomic uint64_t searched_at; /* the loader's counts at the last complete search; 0: none */

/* What search_file returns, and so dl_iterate_phdr. */
enum { NOT_FOUND, NOT_NEEDED, FOUND };

struct search {
    uint64_t counts;             /* of the loader: files opened (high half), and closed */
    struct dp_trace_place place; /* module 0: not found */
    char file[1024];             /* "": the program */
};

/* The start of DT_GNU_HASH: after it come the words of the bloom filter, the buckets and the chains. */
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

/* Looks variable_name up in a hash table of symbols. NULL: it is not there. */
static const ElfW(Sym) * find_symbol(const struct hash_table *table, const ElfW(Sym) * symbols, const char *strings)
{
    const unsigned bits = 8 * sizeof(ElfW(Addr));
    const uint32_t hash = hash_name(variable_name);
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
        if ((other | 1) == (hash | 1) && !strcmp(strings + symbols[i].st_name, variable_name))
            return &symbols[i];
        if (other & 1)
            return NULL;
    }
}

/* The loader has added the file's base to an address in a dynamic section, except if that section is read-only. */
static const void *resolve_address(const struct dl_phdr_info *info, ElfW(Addr) address)
{
    return (const void *)(address < info->dlpi_addr ? address + info->dlpi_addr : address);
}

static const ElfW(Sym) * find_variable(const struct dl_phdr_info *info, const ElfW(Dyn) * d)
{
    const struct hash_table *table = NULL;
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    for (; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_GNU_HASH)
            table = resolve_address(info, d->d_un.d_ptr);
        if (d->d_tag == DT_SYMTAB)
            symbols = resolve_address(info, d->d_un.d_ptr);
        if (d->d_tag == DT_STRTAB)
            strings = resolve_address(info, d->d_un.d_ptr);
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
    search->counts = (uint64_t)info->dlpi_adds << 32 | (uint32_t)info->dlpi_subs;
    if (n_bytes < sizeof *info || search->counts == dp_load_relaxed(&searched_at))
        return NOT_NEEDED;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        has_variables |= info->dlpi_phdr[i].p_type == PT_TLS;
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    }
    const ElfW(Sym) *symbol = has_variables && dynamic ? find_variable(info, dynamic) : NULL;
    if (!symbol || symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_TLS ||
        symbol->st_value > INT32_MAX || info->dlpi_tls_modid > INT32_MAX)
        return NOT_FOUND;
    search->place = (struct dp_trace_place){(uint32_t)info->dlpi_tls_modid, (int32_t)symbol->st_value};
    strncat(search->file, info->dlpi_name ? info->dlpi_name : "", sizeof search->file - 1);
    return FOUND; /* the first one, as the loader resolves a reference */
}

static bool is_on_own_stack(uintptr_t address)
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

/* Sets the distance, if it is fixed. The file is opened again, so that it stays loaded meanwhile. */
static void find_distance(struct search *search)
{
    /* Found by dlsym: a direct call makes the linker warn in static programs. */
    __typeof__(dlopen) *open_file = (__typeof__(dlopen) *)dlsym(RTLD_DEFAULT, "dlopen");
    void *file = open_file ? open_file(search->file, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *address = file ? dlsym(file, variable_name) : NULL;
    intptr_t distance = (intptr_t)((uintptr_t)address - dp_trace_context_thread_pointer());
    if (address && distance == (int32_t)distance && is_on_own_stack((uintptr_t)address))
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
    if (dl_iterate_phdr(search_file, &search) != NOT_NEEDED) {
        bool may_be_fixed = search.place.module && search.file[0];
        bool is_complete = !may_be_fixed || !is_first_thread;
        if (may_be_fixed && !is_first_thread)
            find_distance(&search);
        dp_trace_context_place(search.place);
        dp_store_relaxed(&searched_at, is_complete ? search.counts : 0); /* 0: another thread searches again */
    }
    errno = saved;
}
