/* SPDX-License-Identifier: MIT */
/*
 * report/kit.c - new memory costs about a microsecond a page, which is most of what a small profile costs: so one kit
 * stays, its pages with it. Consumers are many and write one after the other; two that write at a time have two kits,
 * and one of them is given up.
 *
 * [KIT] A take is an acquire and a give a release: the next writer finds what the last one left as it left it. In a
 * forked child the kit of a writer that did not come along is lost, and its memory with it.
 */
#include "report/kit.h"

#include "base/atomic.h"

static _Atomic(struct dp_kit *) spare;

struct dp_kit *dp_kit_take(void)
{
    struct dp_kit *kit = dp_swap_acq_rel(&spare, NULL); /* [KIT] */
    return kit ? kit : dp_mem_map(sizeof *kit);
}

static void put_away(struct dp_kit *kit)
{
    if (!kit)
        return;
    dp_vec_fini(&kit->rows);
    dp_locations_fini(&kit->locations);
    dp_encode_free(kit->encode);
    dp_gzip_free(kit->gzip);
    dp_mem_unmap(kit, sizeof *kit);
}

static size_t bytes_of(const struct dp_kit *kit)
{
    return sizeof *kit + kit->rows.cap * sizeof *kit->rows.at + dp_locations_bytes(&kit->locations) +
           dp_encode_bytes(kit->encode) + dp_gzip_bytes(kit->gzip);
}

void dp_kit_give(struct dp_kit *kit, size_t keep_bytes)
{
    if (!kit)
        return;
    dp_vec_clear(&kit->rows);
    struct dp_kit *other = kit;
    if (bytes_of(kit) <= keep_bytes)
        other = dp_swap_acq_rel(&spare, kit); /* [KIT] */
    put_away(other);
}
