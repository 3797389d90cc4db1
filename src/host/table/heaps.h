/* SPDX-License-Identifier: MIT */
/* host/table/heaps.h - looks up the names of heaps, which deltaprof_heap_register of <deltaprof/heap.h> registers. */
#pragma once

#include <stdint.h>

/* The registered name of a heap, valid as long as the process lives; NULL for 0 and for unknown ids. Any thread. */
const char *dp_table_heap_name(uint32_t heap);
