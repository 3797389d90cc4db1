/* SPDX-License-Identifier: MIT */
/*
 * host/thread/tids.h - a fixed table of thread ids, without a lock: any thread may enter, find or remove any id. Users
 * keep what they know of a thread in an array of their own, by slot. Context: hook, signal handler.
 */
#pragma once

#include "base/atomic.h"

#include <stdbool.h>
#include <stdint.h>

enum { DP_TIDS_BUCKETS = 256, DP_TIDS_BUCKET = 16, DP_TIDS_MAX = DP_TIDS_BUCKETS * DP_TIDS_BUCKET };

/* Zeroed is empty. A slot is a number from 1 on; 0: none. */
struct dp_tids {
    _Alignas(64) _Atomic int32_t at[DP_TIDS_MAX]; /* 0: free; -id: claimed; INT32_MIN: see tids.c */
};

/* The id in a slot; 0 or less: none. What the slot's owner stored before it published the id is visible. */
static inline int32_t dp_tids_get(struct dp_tids *tids, uint32_t slot)
{
    return dp_load_acquire(&tids->at[slot - 1]); /* [SLOT] */
}

/* The slot of an id; 0: it is not in the table. */
uint32_t dp_tids_find(struct dp_tids *tids, int32_t tid);

/*
 * To enter an id: claim returns a slot that find does not return yet; 0: no slot near its places is free. The caller
 * fills the data of the slot and publishes the id. publish returns false, and frees the slot, if another thread has
 * entered the id or is about to. That thread may then withdraw too: if find does not find the id, the caller enters it
 * again, up to DP_TIDS_TRIES times. publish_own is for the thread that has the id: false means that find finds it.
 */
enum { DP_TIDS_TRIES = 16 };
uint32_t dp_tids_claim(struct dp_tids *tids, int32_t tid);
bool dp_tids_publish(struct dp_tids *tids, uint32_t slot, int32_t tid);
bool dp_tids_publish_own(struct dp_tids *tids, uint32_t slot, int32_t tid);

/*
 * Frees the slot of an id. False: the id does not stand there any more. Between withdraw, which returns the same, and
 * free, find does not return the slot and no thread can enter the id: for a caller that must change the slot's data.
 */
bool dp_tids_remove(struct dp_tids *tids, uint32_t slot, int32_t tid);
bool dp_tids_withdraw(struct dp_tids *tids, uint32_t slot, int32_t tid);
void dp_tids_free(struct dp_tids *tids, uint32_t slot);

/* The slots that an id can stand in, for i below DP_TIDS_PLACES. */
enum { DP_TIDS_PLACES = 4 * DP_TIDS_BUCKET };
uint32_t dp_tids_slot(int32_t tid, uint32_t i);
