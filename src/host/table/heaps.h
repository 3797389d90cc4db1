/* SPDX-License-Identifier: MIT */
/* host/table/heaps.h - looks up the names of heaps, which deltaprof_heap_register of <deltaprof/heap.h> registers. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The registered name of a heap, valid as long as the process lives; NULL for 0 and for unknown ids. Any thread. */
const char *dp_table_heap_name(uint32_t heap);

/* The array of copies for other processes. -ENOMEM. Context: init. */
int dp_table_heaps_share(void);
/* Copies a name there, for a record of that heap. Context: hook. */
void dp_table_heap_publish(uint32_t heap);
/* In such a process: takes the names of the first n ids. False: one is not valid. */
bool dp_table_heaps_adopt(uint32_t n);
