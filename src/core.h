/* SPDX-License-Identifier: MIT */
/* core.h - functions of the core (deltaprof.c) for the part of the public API in deltas.c. */
#pragma once

/*
 * Sets up the tables, for a runtime that uses records.h without deltaprof_start: its stacks need frames and mappings
 * too. Does nothing if they exist. It reports no error: callers notice missing tables.
 */
void dp_core_init_once(void);
