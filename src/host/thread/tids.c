/* SPDX-License-Identifier: MIT */
/*
 * host/thread/tids.c - the table of thread ids: each id can stand in one of the 64 places that it leads to.
 *
 * A free place is 0. The thread that enters an id claims a place with -id, fills its own data for that place, and then
 * publishes the id: from then on find returns the place.
 *
 * Two threads may enter the same id at once, in different places: a place that was in use when one of them passed it
 * may be free for the other. So before a thread publishes, it looks at all places of the id, and withdraws its claim if
 * the id, or the claim of another thread, stands in one. Both claims come before both looks in the total order [TWICE],
 * so at least one of the two threads sees the other's claim. Both may, and then the id is not entered: whoever needs it
 * in the table tries again.
 *
 * A thread that enters its own id does not try again: the other one may have been preempted between its claim and its
 * look, for longer than the whole life of this thread. It takes the other claim away instead: it makes it TAKEN, and
 * publishes its own. The place stays TAKEN until the other thread, which may still write beside it, comes to publish,
 * finds its claim gone and frees the place. A thread has one such entry under way at most, so nobody takes its claim.
 *
 * [SLOT]: the store of an id releases what its owner wrote beside it; the claim of a place acquires it.
 */
#include "host/thread/tids.h"

#include <limits.h>

#define TAKEN INT32_MIN /* of a place: the thread that claimed it has to free it */

/* Place i of a thread. Threads are created with rising ids, so neighbours share a line. */
static uint32_t place_of(int32_t tid, uint32_t i)
{
    uint32_t bucket = ((uint32_t)tid / DP_TIDS_BUCKET + i / DP_TIDS_BUCKET) % DP_TIDS_BUCKETS;
    return bucket * DP_TIDS_BUCKET + ((uint32_t)tid + i) % DP_TIDS_BUCKET;
}

uint32_t dp_tids_find(struct dp_tids *tids, int32_t tid)
{
    for (uint32_t i = 0; i < DP_TIDS_PLACES; i++)
        if (dp_load_acquire(&tids->at[place_of(tid, i)]) == tid) /* [SLOT] */
            return place_of(tid, i) + 1;
    return 0;
}

uint32_t dp_tids_claim(struct dp_tids *tids, int32_t tid)
{
    for (uint32_t i = 0; i < DP_TIDS_PLACES; i++) {
        uint32_t place = place_of(tid, i);
        int32_t is_free = 0;
        if (!dp_load_relaxed(&tids->at[place]) && dp_cas_total(&tids->at[place], &is_free, -tid)) /* [TWICE], [SLOT] */
            return place + 1;
    }
    return 0;
}

/* Whether a thread has the id, or claims it, in a place other than this one. */
static bool is_elsewhere(struct dp_tids *tids, uint32_t place, int32_t tid)
{
    for (uint32_t i = 0; i < DP_TIDS_PLACES; i++) {
        int32_t other = place_of(tid, i) == place ? 0 : dp_load_total(&tids->at[place_of(tid, i)]); /* [TWICE] */
        if (other == tid || other == -tid)
            return true;
    }
    return false;
}

/* Frees the place if the claim was taken away. */
static bool publish(struct dp_tids *tids, uint32_t slot, int32_t tid, bool is_alone)
{
    int32_t claim = -tid;
    if (dp_cas_total(&tids->at[slot - 1], &claim, is_alone ? tid : 0)) /* [SLOT], [TWICE] */
        return is_alone;
    dp_store_release(&tids->at[slot - 1], 0); /* [SLOT] */
    return false;
}

bool dp_tids_publish(struct dp_tids *tids, uint32_t slot, int32_t tid)
{
    return publish(tids, slot, tid, !is_elsewhere(tids, slot - 1, tid));
}

bool dp_tids_publish_own(struct dp_tids *tids, uint32_t slot, int32_t tid)
{
    bool is_alone = true;
    for (uint32_t i = 0; i < DP_TIDS_PLACES; i++) {
        uint32_t place = place_of(tid, i);
        int32_t other = -tid;
        if (place != slot - 1 && !dp_cas_total(&tids->at[place], &other, TAKEN)) /* [TWICE] */
            is_alone = is_alone && other != tid;
    }
    return publish(tids, slot, tid, is_alone);
}

bool dp_tids_remove(struct dp_tids *tids, uint32_t slot, int32_t tid)
{
    return dp_cas_publish(&tids->at[slot - 1], &tid, 0); /* [SLOT] */
}

bool dp_tids_withdraw(struct dp_tids *tids, uint32_t slot, int32_t tid)
{
    return dp_cas_total(&tids->at[slot - 1], &tid, -tid); /* [TWICE], [SLOT] */
}

void dp_tids_free(struct dp_tids *tids, uint32_t slot)
{
    dp_store_release(&tids->at[slot - 1], 0); /* [SLOT] */
}

uint32_t dp_tids_slot(int32_t tid, uint32_t i)
{
    return place_of(tid, i) + 1;
}
