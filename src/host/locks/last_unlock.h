/* SPDX-License-Identifier: MIT */
/*
 * host/locks/last_unlock.h - where each contended lock was unlocked last. A note, which may be lost: another lock may
 * replace it. Context: hook; async-signal-safe.
 */
#pragma once

#include "host/table/table.h"

/* The lock was unlocked, while a thread waited, with the stack of this record of the mutex profile. */
void dp_last_unlock_note(uintptr_t lock, dp_record_id record);

/* The record of its last unlock; 0: not known. */
dp_record_id dp_last_unlock_find(uintptr_t lock);
