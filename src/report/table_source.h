/* SPDX-License-Identifier: MIT */
/* report/table_source.h - the source of rows from the record table: their stacks and labels. */
#pragma once

#include "report/emit.h"

/* Makes the source; its ctx is the value of `kind`, not a pointer. */
struct dp_emit_source dp_table_source(unsigned kind);

/* The locations of a record's stack as it is shown: fills refs (DP_EMIT_STACK_MAX), leaf first; returns their number.
 */
size_t dp_table_stack(unsigned kind, dp_record_id id, struct dp_locations *l, uint32_t *refs);
