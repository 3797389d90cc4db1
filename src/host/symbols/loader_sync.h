/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/loader_sync.h - enters the loader's files in the table of objects, on systems where hooks cannot ask the
 * loader.
 */
#pragma once

/*
 * Enters every loaded file, if a file was opened or closed since the last call. Does nothing where _dl_find_object
 * exists, and in a child forked by a process with other threads. Takes the loader's lock. Context: any place where
 * dlopen may be called.
 */
void dp_symbols_loader_sync(void);
