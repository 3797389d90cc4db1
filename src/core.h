/* SPDX-License-Identifier: MIT */
/*
 * core.h - what the core (deltaprof.c) does for the public API that stands elsewhere.
 */
#pragma once

/*
 * The tables, for a runtime that has records of its own and never starts us: its stacks want frames and mappings too.
 * Does nothing once they are there; what it lacks for want of memory, its callers find out themselves.
 */
void dp_core_init_once(void);
