/* SPDX-License-Identifier: MIT */
/*
 * host/report/text_profile.h - writes text: a cumulative profile in the format that people and pprof can read, and
 * names for addresses. Context: outside hooks.
 */
#pragma once

#include "config/config.h"
#include "pprof/gzip.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Writes Go's debug=1 format, with names as `how` says. locks: as for dp_delta_scan. 0, fn's error, -EINVAL (no such
 * kind) or -ENOMEM. Opens symbol files: only on a thread of the profiler.
 */
int dp_report_text_write_profile(unsigned kind, unsigned locks, enum dp_symbolize how, dp_pprof_write_fn fn, void *ctx);

/* Writes a line `0xADDRESS name` for each address that is a frame of a record and has a name. 0, or fn's error. */
int dp_report_text_write_symbols(const uintptr_t *addresses, size_t n, dp_pprof_write_fn fn, void *ctx);

/* Writes the name of a frame's code, of at most size - 1 bytes. Returns its length, 0: it has none. After
 * dp_symbols_maps_begin. */
struct dp_symbols_files;
size_t dp_report_text_name_of(struct dp_symbols_files *files, uint32_t frame, uintptr_t pc, char *name, size_t size);
