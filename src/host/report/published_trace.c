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
#include "host/symbols/dynamic_symbol.h"
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

static int search_file(struct dl_phdr_info *info, size_t n_bytes, void *arg)
{
    struct search *search = arg;
    search->counts = (uint64_t)info->dlpi_adds << 32 | (uint32_t)info->dlpi_subs;
    if (n_bytes < sizeof *info || search->counts == dp_load_relaxed(&searched_at))
        return NOT_NEEDED;
    const ElfW(Sym) *symbol = info->dlpi_tls_modid ? dp_symbols_dynamic_find(info, variable_name) : NULL;
    if (!symbol || ELF64_ST_TYPE(symbol->st_info) != STT_TLS || symbol->st_value > INT32_MAX ||
        info->dlpi_tls_modid > INT32_MAX)
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
