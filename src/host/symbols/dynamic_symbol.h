/* SPDX-License-Identifier: MIT */
/* host/symbols/dynamic_symbol.h - looks a symbol up in one loaded file. Context: report. */
#pragma once

#include <link.h>

/*
 * The symbol of that name that the file defines, by its DT_GNU_HASH: it may be called by a function that
 * dl_iterate_phdr calls. NULL: the file does not define it.
 */
const ElfW(Sym) * dp_symbols_dynamic_find(const struct dl_phdr_info *, const char *name);
