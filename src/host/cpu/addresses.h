/* SPDX-License-Identifier: MIT */
/*
 * host/cpu/addresses.h - counts CPU samples by record and exact address, beside the records, whose leaf is only a
 * function. The counts are for lines and for compilers that optimise by profiles.
 */
#pragma once

#include "base/atomic.h"
#include "host/table/table.h"

#include <stdbool.h>
#include <stdint.h>

enum { DP_CPU_ADDRESS_TABLES = 2 };

/* The largest distance of an address from its function's beginning that is told apart. */
#define DP_CPU_DISTANCE_MAX ((UINT32_C(1) << 24) - 2)

/* Maps the tables, once. Without memory for them samples have no exact addresses. Context: any thread, not a hook. */
void dp_cpu_addresses_init(void);

/* Adds a sample to an address. Async-signal-safe. No room: it is counted as lost. */
void dp_cpu_address_add(dp_record_id record, uint32_t distance, int64_t n, int64_t ns);

/* Clears the older table and uses it, if the present one is nearly full. One thread at a time; not in a hook. */
void dp_cpu_addresses_turn(void);

/* ---- for reports, any thread ---- */

struct dp_cpu_address {
    dp_record_id record;
    uint32_t distance; /* from the function's beginning, which is the record's leaf */
    int64_t n, ns;     /* since the table was cleared */
};

uint32_t dp_cpu_addresses_slots(void); /* of each table; 0: there is none */

/* The generation of a table, before its slots are read; 0: it is being cleared, or was never filled. */
uint32_t dp_cpu_addresses_begin(unsigned table);
/* False: an empty slot. */
bool dp_cpu_addresses_read(unsigned table, uint32_t slot, struct dp_cpu_address *);
/* Whether all that was read since begin is of that generation. */
bool dp_cpu_addresses_end(unsigned table, uint32_t generation);

/* In a forked child: empties both tables. Only stores and madvise. */
void dp_cpu_addresses_fork_child(void);
