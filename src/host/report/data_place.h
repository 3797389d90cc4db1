/* SPDX-License-Identifier: MIT */
/*
 * host/report/data_place.h - says for people where an address of data lies: the variable, the function that allocated
 * the block, the stack. Context: outside hooks, after dp_symbols_maps_begin; async-signal-safe with how->no_wait.
 */
#pragma once

#include "host/objects/frames.h"
#include "host/report/location.h"

enum { DP_DATA_PLACE_BYTES = 256 };

/*
 * frame: of the type DATA, if the address is known to lie in an object; else 0. Writes one of these, and returns its
 * length; 0: not known.
 *
 *     Cache::instance+0x28                              a variable; how->symbolize says whether names are wanted
 *     libcache.so.1+0x4040                              one without a name: the address as in the file
 *     in a block of 96 bytes allocated by new_cache (cache.c:12)    a sampled block, which is or was in use
 *     in the heap
 *     on the stack of thread writer
 */
size_t dp_report_data_place(uintptr_t address, dp_frame_id frame, const struct dp_location_settings *how, char *text,
                            size_t n_bytes);
