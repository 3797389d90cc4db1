/* SPDX-License-Identifier: MIT */
/*
 * record/released.h - where each contended lock was released last. A note, which may be lost: another lock may take its
 * place. Context: hook; async-signal-safe.
 */
#pragma once

#include "store/table.h"

/* The lock was released, while a thread waited, with the stack of this record of the mutex profile. */
void dp_released_note(uintptr_t lock, dp_record_id record);

/* The record of its last release; 0: not known. */
dp_record_id dp_released_find(uintptr_t lock);
