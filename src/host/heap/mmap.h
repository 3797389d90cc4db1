/* SPDX-License-Identifier: MIT */
/* host/heap/mmap.h - mappings as a heap of their own, for the core; the hooks themselves are in <deltaprof/heap.h>. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Maps the table of ranges, and registers the heaps `mmap` and `mmap-file`. -ENOMEM. Context: init. */
int dp_heap_maps_init(size_t budget_bytes);

/* Whether mappings are recorded from now on. Any thread. */
void dp_heap_maps_tune(bool on);
