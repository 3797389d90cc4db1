/* SPDX-License-Identifier: MIT */
/* host/report/table_source.h - the source of rows from the record table: their stacks and labels. */
#pragma once

#include "host/report/emit.h"
#include "host/table/table.h"

/* Makes the source; its ctx is the value of `kind`, not a pointer. */
struct dp_emit_source dp_report_table_source(unsigned kind);

/*
 * The function below a record's leaf that has no frame, because it ended with a jump to the hook or into the lock's
 * library; 0: none is missing. *n_inside: number of leafmost frames inside that library, which are not shown.
 */
dp_frame_id dp_report_table_frame_called(unsigned kind, const struct dp_record *, unsigned *n_inside);

/*
 * The frames of a record as a profile shows them, [truncated] included: fills frames (DP_EMIT_STACK_MAX), leaf first.
 * Returns their number.
 */
size_t dp_report_table_shown(unsigned kind, const struct dp_record *, dp_frame_id *frames);

/*
 * All frames of a record, leaf first; *n: their number. to (DP_EMIT_STACK_MAX): room for those of a kind whose records
 * have no frames of their own.
 */
const dp_frame_id *dp_report_table_all_frames(unsigned kind, const struct dp_record *, dp_frame_id *to, size_t *n);
