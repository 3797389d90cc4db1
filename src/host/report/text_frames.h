/* SPDX-License-Identifier: MIT */
/* host/report/text_frames.h - writes the names of a stack's frames as text, a line each. Context: outside hooks.
 */
#pragma once

#include "config/config.h"
#include "pprof/gzip.h"
#include "host/objects/frames.h"
#include "host/symbols/symbol.h"

/*
 * Writes a line "#\tADDRESS\tNAME\tFILE:LINE" for each frame, as Go's debug=1 does; an inlined function
 * has a line of its own with the address of its caller's. A frame without a name has its place. files: open during the
 * whole text. 0, or fn's error. After dp_symbols_maps_begin.
 */
int dp_report_text_write_frames(const dp_frame_id *frames, size_t n, enum dp_symbolize how,
                                struct dp_symbols_files *files, dp_pprof_write_fn fn, void *ctx);

/* Writes OBJECT+0xPLACE, as deltaprof top names a frame of code without a name; its address if it is in no object.
 * Returns its length. After dp_symbols_maps_begin. */
size_t dp_report_text_place_of(dp_frame_id id, char *text, size_t size);
