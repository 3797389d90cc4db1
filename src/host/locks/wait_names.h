/* SPDX-License-Identifier: MIT */
/* host/locks/wait_names.h - names the frames of stacks for people. Context: outside hooks, one thread. */
#pragma once

#include "host/table/table.h"
#include "host/symbols/symbol.h"

#include <stddef.h>

struct dp_waits_names {
    struct dp_symbols_files files;
};

/* 0 or -ENOMEM. Opens the modules that names need. */
int dp_waits_names_begin(struct dp_waits_names *);
void dp_waits_names_end(struct dp_waits_names *);

/* The number of frames of a record, with that of a function which ended with a jump to the hook. */
unsigned dp_waits_depth(unsigned kind, dp_record_id id);
/* Writes the name of frame i of a record of the kind, from the leaf, or its place. Returns its length; 0: none. */
size_t dp_waits_name(struct dp_waits_names *, unsigned kind, dp_record_id id, unsigned i, char *name, size_t size);
