/* SPDX-License-Identifier: MIT */
/*
 * symbols/loader_sync.h - tells the table of objects what the loader has, where the loader cannot be asked from a hook.
 */
#pragma once

/*
 * Enters every file that is loaded, if any came or went since the last time. Does nothing where _dl_find_object is, nor
 * in a child forked by a process with other threads. Takes the loader's lock. Context: wherever dlopen may be called.
 */
void dp_loader_sync(void);
