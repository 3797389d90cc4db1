/* SPDX-License-Identifier: MIT */
/*
 * host/locks/lock_names.h - decides by the names of functions what kinds of locks futexes are part of (futex_class.h).
 * Context: outside hooks.
 */
#pragma once

#include "config/config.h"
#include "host/table/table.h"
#include "host/report/delta.h"
#include "host/symbols/symbol.h"

#include <stdbool.h>

/*
 * Gives verdicts to the frames of undecided classes, and to the frames of these rows (NULL: no rows). kind: of the
 * rows. files: opened where names need them, and left open; NULL: only names that are known already are used.
 */
void dp_lock_learn(unsigned kind, enum dp_symbolize symbolize, struct dp_symbols_files *files,
                   const struct dp_rows *rows);

/*
 * The number of leafmost frames of a futex record that are inside the lock's library. Profiles leave these out: a stack
 * begins at the call of the library, as for other locks.
 */
unsigned dp_lock_frames_inside(const struct dp_record *record);

/*
 * The function that the first shown frame of such a record called. 0: its frame is in the record. The frame is missing
 * if the function ended with a jump (a tail call) into the lock's library.
 */
dp_frame_id dp_lock_frame_called(const struct dp_record *record);
