/* SPDX-License-Identifier: MIT */
/*
 * host/locks/futex_class.h - what a wait for a futex word waits for: a mutex, a condition, work to come.
 *
 * All of them call syscall; only the names of the calling functions tell them apart, and names are known to reports
 * alone. So a report gives each frame that it meets near the leaf of such a wait a *verdict*, and hooks read verdicts.
 * A *class* is what a hook knows when a wait begins, a number of 12 bits that stands in the key of the waits' slot
 * (contended.h) and of the mutex records that pay for them. A report turns it into a kind:
 *
 *     the frames have verdicts, and one names a kind     the class is the kind
 *     the frames have verdicts, and none names a kind    the class is the frame that called: of an unknown kind
 *     a frame has no verdict yet                         the class is a block record of the waiting stack, for now:
 *                                                        of the frames that may decide, so that there are few
 *
 * A futex of unknown kind counts as a lock once a thread that waited for it and was woken has later woken others on the
 * same word, as every holder of a lock does, or if its function's name is that of a lock; else it may be a place where
 * threads wait for work.
 */
#pragma once

#include "host/table/table.h"
#include "profile/lock_kinds.h"

#include <stdbool.h>
#include <stdint.h>

/* A verdict: a kind, and with WEAK a kind that the caller may know better. */
enum { DP_FUTEX_WEAK = 0x40, DP_FUTEX_HOLDS = 0x80, DP_FUTEX_KIND_MASK = 0x3f, DP_FUTEX_FRAMES = 8 };

/* -ENOMEM: every wait is of unknown kind. Context: init, after dp_frames_init. */
int dp_futex_class_init(void);

/* The array of copies for other processes. -ENOMEM. Context: init, as the above. */
int dp_futex_class_share(void);
/* In such a process, after its records were adopted: takes the first n. False: one is not valid. */
bool dp_futex_class_adopt(uint32_t n);

/* ---- for hooks ---- */

/* Whether a record of more frames than DP_FUTEX_FRAMES needs another record, of these frames alone, for its class. */
bool dp_futex_class_needs_head(dp_record_id record);

/* The class of a wait with this block record, 0: none is free. *may_hold: a holder may have to pay for it. */
unsigned dp_futex_class_of(dp_record_id record, bool *may_hold);

/* A thread that waited for a word of this class, and was woken, now wakes others on that word. */
void dp_futex_class_note_holder(unsigned class);

/* ---- for reports ---- */

/* The verdict of a frame, 0: none yet. set is for one thread at a time. */
unsigned dp_futex_verdict(dp_frame_id frame);
void dp_futex_set_verdict(dp_frame_id frame, unsigned verdict);

/*
 * The kind of lock that a record of this kind of profile is for, as of dp_lock_kind_name; 0: none. *shown: the
 * profile shows it: the mutex and the chain profile show no futex that is no lock.
 */
unsigned dp_futex_lock_of(unsigned kind, const struct dp_record *record, bool *shown);

/* A block record whose stack has to be decided: the one of the first such class above *class, which it sets; 0: none.
 */
dp_record_id dp_futex_next_undecided(unsigned *class);
