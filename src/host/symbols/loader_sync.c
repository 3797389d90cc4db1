/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/loader_sync.c - enters all loaded files in the table of objects, by dl_iterate_phdr, which hooks
 * (host/objects/loader_scan.c) must not call.
 *
 * It saves hooks the search in memory, and gives objects their names. The loader counts opened and closed files, so if
 * nothing changed the cost is one callback. Files in other namespaces (dlmopen) are not listed; hooks find those by
 * themselves. The hook of dlclose does not call it: the program may hold a lock there that another thread, inside a
 * callback of dl_iterate_phdr, waits for. So a library that is closed before any report saw it has no name.
 */
#include "host/symbols/loader_sync.h"

#include "base/atomic.h"
#include "host/objects/objects.h"
#include "host/symbols/outside.h"
#include "host/symbols/symbol.h"

#include <errno.h>
#include <link.h>

static _Atomic uint64_t seen; /* the loader's counts when all files were last entered; 0: never */

static int enter(struct dl_phdr_info *info, size_t n_bytes, void *counted)
{
    struct dp_loaded loaded;
    uint64_t now = (uint64_t)info->dlpi_adds << 32 | (uint32_t)info->dlpi_subs;
    if (now == dp_load_relaxed(&seen))
        return 1;
    *(uint64_t *)counted = now;
    if (dp_loader_measure(info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr, &loaded)) {
        loaded.name = info->dlpi_name ? info->dlpi_name : "";
        dp_object_enter(&loaded);
    }
    return 0;
}

void dp_symbols_loader_sync(void)
{
    if (dp_symbols_outside.is_on || dp_loader_answers() || dp_symbols_loader_unusable())
        return;
    int saved = errno;
    uint64_t counted = 0;
    if (!dl_iterate_phdr(enter, &counted))
        dp_store_relaxed(&seen, counted);
    errno = saved;
}
