/* SPDX-License-Identifier: MIT */
/*
 * report/table_source.h - rows of the record table: their stacks and labels.
 */
#pragma once

#include "report/emit.h"

/* ctx of the source that this makes is only `kind`, kept by value. */
struct dp_emit_source dp_table_source(unsigned kind);
