/* SPDX-License-Identifier: MIT */
/*
 * host/locks/last_unlock.h - remembers the stack of each contended lock's last unlock. Another lock may replace it.
 * Context: hook; async-signal-safe.
 */
#pragma once

#include "host/table/table.h"

/* Notes the record, in the mutex profile, of an unlock while a thread waited. */
void dp_last_unlock_note(uintptr_t lock, dp_record_id record);

/* The record of the lock's last such unlock; 0: not known. */
dp_record_id dp_last_unlock_find(uintptr_t lock);
