/* SPDX-License-Identifier: MIT */
/*
 * host/locks/lock_seen.h - notes at a record of the mutex and the block profile which lock its waits were for.
 *
 * Many locks may be contended in one stack: one for each connection, say. A record has one word, so it keeps the lock
 * of the longest wait, to the power of two, and whether there were others. So a stack that always waits for one lock
 * writes the word once, and a stack with thousands of locks writes it at most 64 times more.
 *
 *     word       place (52 bits), whether the place is a frame id (1), whether there are others (1), log2 of ns (6)
 *
 * The place of a lock in static storage is the frame id of its address (DP_FRAME_DATA), so that it means the same in
 * another process that reads the tables, and after the object was closed; else it is the address. [SEEN] The word is
 * stored with release and read with acquire: else a reader could find the frame's id before the frame.
 */
#pragma once

#include "host/objects/frames.h"
#include "host/table/table.h"

#define DP_LOCK_SEEN_LENGTH  0x3f
#define DP_LOCK_SEEN_OTHERS  0x40
#define DP_LOCK_SEEN_IS_ID   0x80
#define DP_LOCK_SEEN_SHIFT   8
#define DP_LOCK_SEEN_HIGHEST (UINT64_C(1) << 52) /* no address of a program is so high */

/* The frame of a lock in static storage; 0: another lock, or none. Any value may stand in tables of another process. */
static inline dp_frame_id dp_lock_seen_frame(int64_t word)
{
    uint64_t id = (uint64_t)word >> DP_LOCK_SEEN_SHIFT;
    return word & DP_LOCK_SEEN_IS_ID && id < dp_frames_count() && dp_frame_get((dp_frame_id)id)->type == DP_FRAME_DATA
               ? (dp_frame_id)id
               : 0;
}

/* The address of the lock; 0: none was seen. */
static inline uintptr_t dp_lock_seen_address(int64_t word)
{
    dp_frame_id frame = dp_lock_seen_frame(word);
    return frame ? dp_frame_get(frame)->pc : word & DP_LOCK_SEEN_IS_ID ? 0 : (uintptr_t)word >> DP_LOCK_SEEN_SHIFT;
}

/* The place of a lock that is in use, in a word. */
static inline int64_t dp_lock_seen_place(uintptr_t lock)
{
    dp_frame_id frame = dp_frame_intern_data(lock);
    return frame ? (int64_t)frame << DP_LOCK_SEEN_SHIFT | DP_LOCK_SEEN_IS_ID : (int64_t)lock << DP_LOCK_SEEN_SHIFT;
}

/*
 * A wait for this lock (0: not known), of ns so far, is in this record. Context: hook, async-signal-safe; for a wait
 * that took place only.
 */
static inline void dp_lock_seen_note(unsigned kind, dp_record_id id, uintptr_t lock, int64_t ns)
{
    int64_t length = ns > 0 ? 64 - __builtin_clzll((uint64_t)ns) : 0, next;
    if (!id || !lock || lock >= DP_LOCK_SEEN_HIGHEST)
        return;
    _Atomic int64_t *at = dp_table_word(kind, id);
    int64_t word = dp_load_acquire(at); /* [SEEN] */
    do {
        bool is_longer = length > (word & DP_LOCK_SEEN_LENGTH);
        if (word && dp_lock_seen_address(word) == lock)
            next = is_longer ? (word & ~(int64_t)DP_LOCK_SEEN_LENGTH) | length : word;
        else if (!word || is_longer)
            next = dp_lock_seen_place(lock) | (word ? DP_LOCK_SEEN_OTHERS : 0) | length;
        else
            next = word | DP_LOCK_SEEN_OTHERS;
    } while (next != word && !dp_cas_publish(at, &word, next)); /* [SEEN] */
}
