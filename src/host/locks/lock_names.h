/* SPDX-License-Identifier: MIT */
/*
 * host/locks/lock_names.h - tells by the names of functions what the waits for futexes were for
 * (host/locks/futex_class.h). Context: outside hooks.
 */
#pragma once

#include "config/config.h"
#include "host/table/table.h"
#include "host/report/delta.h"
#include "host/symbols/symbol.h"

#include <stdbool.h>

/* The kind of wait that a function of this name makes, as a verdict; DP_LOCK_FUTEX: it tells nothing. */
unsigned dp_lock_name_verdict(const char *name);

/*
 * Decides what the futexes are that threads have waited for, and which frames of these rows (NULL: no rows) belong to
 * locks. files: opened as names need them, and left open; NULL: only names that are known already are used.
 */
void dp_lock_learn(unsigned kind, enum dp_symbolize symbolize, struct dp_symbols_files *files,
                   const struct dp_rows *rows);

/*
 * The number of leafmost frames of a record that are inside the lock's library: its stack is shown from where the lock
 * was asked for, as that of other locks.
 */
unsigned dp_lock_frames_inside(const struct dp_record *record);

/*
 * The function that the first shown frame of such a record called, if its own frame is missing because it left by a
 * jump into the lock's library; else 0.
 */
dp_frame_id dp_lock_frame_called(const struct dp_record *record);
