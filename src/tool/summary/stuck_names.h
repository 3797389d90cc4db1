/* SPDX-License-Identifier: MIT */
/* tool/summary/stuck_names.h - names the places in the text of a wait, as far as its profile's files are here. */
#pragma once

#include "pprof/decode.h"

#include <stddef.h>

/* Replaces each OBJECT+0xPLACE of the text by the function's name, if a location of the profile lies there. */
void dp_summary_stuck_names(const struct dp_decode *, char *text, size_t n_bytes);
