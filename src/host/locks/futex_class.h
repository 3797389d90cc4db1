/* SPDX-License-Identifier: MIT */
/*
 * host/locks/futex_class.h - decides what kind of object a futex word is part of: a mutex, a condition, another one.
 *
 * All waits for futexes call the same system call. Only the names of the calling functions show the kind, and only
 * reports look names up. So a report stores a *verdict* for each frame that it finds near the leaf of such a wait: the
 * kind of lock that the function implements. Hooks read the verdicts.
 *
 * A *class* is what a hook knows of the kind when a wait begins. It is a number of 12 bits, in the key of the wait's
 * slot (contended.h) and in the labels of the mutex records that account for the wait. A report turns it into a kind:
 *
 *     all frames have verdicts, one names a kind       the class is the kind
 *     all frames have verdicts, none names a kind      the class stands for the calling frame; the kind is unknown
 *     a frame has no verdict yet                       the class stands for a block record with the waiting stack's
 *                                                      leafmost frames, until a report gives them verdicts
 *
 * A futex of unknown kind counts as a lock in two cases: a thread that waited for it and was woken has later woken
 * other threads on the same word, as the holder of a lock does; or the function's name is that of a lock. Otherwise
 * threads may wait there for work.
 */
#pragma once

#include "host/table/table.h"
#include "profile/lock_kinds.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A verdict is a kind (enum dp_lock_kind), with flags. WEAK: a verdict of a calling frame has precedence. HOLDS: the
 * futex counts as a lock. The verdicts of the DP_FUTEX_FRAMES leafmost frames decide.
 */
enum { DP_FUTEX_WEAK = 0x40, DP_FUTEX_HOLDS = 0x80, DP_FUTEX_KIND_MASK = 0x3f, DP_FUTEX_FRAMES = 8 };

/* -ENOMEM: every wait is of unknown kind. Context: init, after dp_frames_init. */
int dp_futex_class_init(void);

/* Shares the classes with other processes, in an array of copies. 0 or -ENOMEM. Context: init, as the above. */
int dp_futex_class_share(void);
/* In such another process, after it adopted the records: adopts the first n classes. False: one is not valid. */
bool dp_futex_class_adopt(uint32_t n);

/* ---- for hooks ---- */

/*
 * Whether the class of a wait with this block record needs another record with only the DP_FUTEX_FRAMES leafmost
 * frames: the record has more frames, and they do not decide the kind yet.
 */
bool dp_futex_class_needs_head(dp_record_id record);

/* The class of a wait with this block record; 0: none is free. *may_hold: the kind may be one with a holder. */
unsigned dp_futex_class_of(dp_record_id record, bool *may_hold);

/* Notes that a thread which waited for a word of this class, and was woken, now wakes others on that word. */
void dp_futex_class_note_holder(unsigned class);

/* ---- for reports ---- */

/* The verdict of a frame; 0: none yet. set: one thread at a time. */
unsigned dp_futex_verdict(dp_frame_id frame);
void dp_futex_set_verdict(dp_frame_id frame, unsigned verdict);

/*
 * The kind of lock (dp_lock_kind_name) of a record in a profile of this kind; 0: none. *shown: whether the profile
 * shows the record. Mutex and chain profiles do not show futexes that do not count as locks.
 */
unsigned dp_futex_lock_of(unsigned kind, const struct dp_record *record, bool *shown);

/*
 * Finds the next class above *class that stands for a block record and is not decided. Sets *class, and returns that
 * record; 0: there is none.
 */
dp_record_id dp_futex_next_undecided(unsigned *class);
