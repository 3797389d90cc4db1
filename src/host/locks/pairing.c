/* SPDX-License-Identifier: MIT */
/*
 * host/locks/pairing.c - divides the waiting time that an unlock accounts for among the waiters, in proportion to the
 * time that each has waited since the last such division. The parts add up to the whole: the last waiter gets the rest.
 */
#include "host/locks/pairing.h"

#include "host/locks/chain.h"

#define GROUP_SHIFT 28
#define WEIGHT_MOST ((1u << GROUP_SHIFT) - 1)

static unsigned n_listed(const struct dp_pairing *pairing)
{
    unsigned n = 0;
    while (n < DP_PAIRING_WAITERS && pairing->at[n])
        n++;
    return n;
}

void dp_pairing_add(struct dp_pairing *pairing, unsigned group, const struct dp_contended_place *place, int64_t now_ns)
{
    struct dp_waiter waiters[DP_WAITERS_MOST];
    unsigned n = n_listed(pairing), n_more = dp_waiters_pay(place->slot, now_ns, waiters);
    /* A waiter of another lock is listed after its slot got that lock's key: who saw it sees the key, too. [LISTED] */
    if (!dp_contended_is_in_place(place))
        n_more = 0;
    for (unsigned i = 0; i < n_more && n < DP_PAIRING_WAITERS; i++) {
        /* 0 would end the list; equal weights stay equal */
        uint32_t weight = waiters[i].weight < WEIGHT_MOST ? waiters[i].weight + 1 : WEIGHT_MOST;
        pairing->at[n++] = (uint64_t)waiters[i].record << 32 | group << GROUP_SHIFT | weight;
    }
    if (n < DP_PAIRING_WAITERS)
        pairing->at[n] = 0;
}

static uint64_t weight_in(uint64_t word, unsigned group)
{
    return ((uint32_t)word >> GROUP_SHIFT) == group ? word & WEIGHT_MOST : 0;
}

void dp_pairing_note(const struct dp_pairing *pairing, unsigned group, dp_record_id holder, int64_t n, int64_t ns)
{
    unsigned n_waiters = n_listed(pairing);
    uint64_t left = 0; /* the weights that have no part yet */
    for (unsigned i = 0; i < n_waiters; i++)
        left += weight_in(pairing->at[i], group);
    if (!left)
        dp_chain_add(DP_CHAIN_UNKNOWN, holder, n, ns);
    for (unsigned i = 0; i < n_waiters && left; i++) {
        uint64_t weight = weight_in(pairing->at[i], group);
        int64_t part = (int64_t)((unsigned __int128)(uint64_t)ns * weight / left);
        if (weight)
            dp_chain_add((dp_record_id)(pairing->at[i] >> 32), holder, n, part);
        ns -= part;
        left -= weight;
    }
}
