/* SPDX-License-Identifier: MIT */
/*
 * host/thread/tids.c - the table of thread ids: each id can stand in one of the 64 places that it leads to.
 *
 * Two threads may enter the same id at once: each claims a free place, then looks at all places before it; if the id
 * stands there too, it frees its own. Both stores come before both looks in the total order [TWICE], so one of them is
 * seen. [SLOT]: the store of an id releases what its owner wrote beside it.
 */
#include "host/thread/tids.h"

enum { BUCKETS_TRIED = 4, PLACES = BUCKETS_TRIED * DP_TIDS_BUCKET };

/* Place i of a thread. Threads are created with rising ids, so neighbours share a line. */
static uint32_t place_of(int32_t tid, uint32_t i)
{
    uint32_t bucket = ((uint32_t)tid / DP_TIDS_BUCKET + i / DP_TIDS_BUCKET) % DP_TIDS_BUCKETS;
    return bucket * DP_TIDS_BUCKET + ((uint32_t)tid + i) % DP_TIDS_BUCKET;
}

uint32_t dp_tids_find(struct dp_tids *tids, int32_t tid)
{
    for (uint32_t i = 0; i < PLACES; i++)
        if (dp_load_total(&tids->at[place_of(tid, i)]) == tid) /* [TWICE] */
            return place_of(tid, i) + 1;
    return 0;
}

uint32_t dp_tids_claim(struct dp_tids *tids, int32_t tid)
{
    for (uint32_t i = 0; i < PLACES; i++) {
        uint32_t place = place_of(tid, i);
        int32_t is_free = 0;
        /* A negative id claims the place without being found; its owner alone fills it. */
        if (!dp_load_relaxed(&tids->at[place]) && dp_cas_relaxed(&tids->at[place], &is_free, -1))
            return place + 1;
    }
    return 0;
}

bool dp_tids_publish(struct dp_tids *tids, uint32_t slot, int32_t tid)
{
    dp_swap_total(&tids->at[slot - 1], tid); /* [TWICE], [SLOT] */
    for (uint32_t i = 0; i < PLACES && place_of(tid, i) != slot - 1; i++)
        if (dp_load_total(&tids->at[place_of(tid, i)]) == tid) { /* [TWICE] */
            dp_store_release(&tids->at[slot - 1], 0);
            return false;
        }
    return true;
}

bool dp_tids_remove(struct dp_tids *tids, uint32_t slot)
{
    int32_t tid = dp_load_relaxed(&tids->at[slot - 1]);
    return tid > 0 && dp_cas_publish(&tids->at[slot - 1], &tid, 0); /* [SLOT] */
}
