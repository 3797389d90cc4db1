/* SPDX-License-Identifier: MIT */
/* tool/pack/pack_pairs.c - the pairs of waiters and holders of a tick, by the nodes of their stacks. */
#include "tool/pack/pack.h"

#include "tool/model/pairs.h"

int dp_pack_put_pairs(struct dp_pack *pack, struct dp_pack_kind *kind, const struct dp_decode *d)
{
    struct dp_model_pairs pairs = {0};
    int err = d ? dp_model_pairs_add(&pairs, &kind->model, d) : 0;
    err = err ?: dp_pack_put(pack, pairs.sums.n);
    for (size_t i = 0; i < pairs.sums.n && !err; i++) {
        struct dp_model_pair pair = dp_model_pairs_get(&pairs, i);
        uint32_t waiter, holder;
        err = dp_pack_node(pack, kind, pair.waiter, pair.n_waiter, &waiter)
                  ?: dp_pack_node(pack, kind, pair.holder, pair.n_holder, &holder);
        err = err ?: dp_pack_put(pack, waiter) ?: dp_pack_put(pack, holder);
        err = err ?: dp_pack_put(pack, (uint64_t)pair.n) ?: dp_pack_put(pack, (uint64_t)pair.ns);
    }
    dp_model_pairs_fini(&pairs);
    return err;
}
