/* SPDX-License-Identifier: MIT */
/*
 * host/heap/peak_copy.h - a copy of what each heap record had in use at the highest peak, so that a profile can show
 * the stacks of a peak that was over before anyone could write a file.
 */
#pragma once

#include "host/table/table.h"

/* Memory for the copy of n_bytes / 16 records. On failure there are no copies. Context: init. */
void dp_heap_peak_copy_init(size_t n_bytes);

/*
 * Copies the objects and bytes in use of all heap records. Returns their bytes; 0: no copy was made, because another
 * thread copies or reads, or because there are more records than fit. Context: hook.
 */
int64_t dp_heap_peak_copy_make(void);

/* Bytes in use at the copy, and its time of day; 0: there is none. */
int64_t dp_heap_peak_copy_bytes(int64_t *wall_ns);

/*
 * For a reader: begin keeps other threads from making a new copy until end. False: there is no copy, or one is being
 * made. read returns the objects and bytes of a record, zeros for one that is younger than the copy.
 */
bool dp_heap_peak_copy_begin(void);
void dp_heap_peak_copy_read(dp_record_id id, int64_t *objects, int64_t *bytes);
void dp_heap_peak_copy_end(void);

/* In a forked child: drops its parent's copy. Only stores. */
void dp_heap_peak_copy_fork_child(void);
