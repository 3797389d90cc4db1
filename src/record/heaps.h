/* SPDX-License-Identifier: MIT */
/*
 * record/heaps.h - the names of heaps. deltaprof_heap_register of <deltaprof/hooks.h> gives them.
 */
#pragma once

#include <stdint.h>

/* The name that a heap was registered with, for as long as the process lives; NULL for 0 and for unknown ids. Any
 * thread. */
const char *dp_heap_name(uint32_t heap);
