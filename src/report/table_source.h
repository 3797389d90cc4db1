/* SPDX-License-Identifier: MIT */
/* report/table_source.h - the source of rows from the record table: their stacks and labels. */
#pragma once

#include "report/emit.h"

/* Makes the source; its ctx is the value of `kind`, not a pointer. */
struct dp_emit_source dp_table_source(unsigned kind);
