/* SPDX-License-Identifier: MIT */
/* host/locks/wait_names.h - writes the names of frames and locks for texts about waits. Context: outside hooks, one
 * thread. */
#pragma once

#include "host/locks/waiting.h"
#include "host/table/table.h"
#include "host/symbols/symbol.h"

#include <stddef.h>

struct dp_waits_names {
    struct dp_symbols_files files;
};

/* Loads the modules for names, and the mappings. 0 or -ENOMEM. */
int dp_waits_names_begin(struct dp_waits_names *);
void dp_waits_names_end(struct dp_waits_names *);

/* The number of frames of a record, including that of a function which ended with a tail call of the hook. */
unsigned dp_waits_depth(unsigned kind, dp_record_id id);
/* Writes the name of frame i of a record, counted from the leaf, or else its file and address. Length; 0: none. */
size_t dp_waits_name(struct dp_waits_names *, unsigned kind, dp_record_id id, unsigned i, char *name, size_t size);

/*
 * Writes where the lock of a wait under way is, as in profiles (host/report/data_place.h). Length; 0: not known. The
 * wait may be over meanwhile: only its record and the address are used.
 */
size_t dp_waits_lock_place(struct dp_waits_names *, const struct dp_waiting *wait, char *text, size_t size);
