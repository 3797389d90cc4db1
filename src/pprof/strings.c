/* SPDX-License-Identifier: MIT */
/* pprof/strings.c - a set of strings: an index (index.h) over one buffer that holds them one behind the other. */
#include "pprof/strings.h"

#include "base/hash.h"

#include <string.h>

static int same(const struct dp_strings *set, uint32_t number, const char *bytes, size_t n_bytes)
{
    return dp_strings_size(set, number) == n_bytes && !memcmp(dp_strings_at(set, number), bytes, n_bytes);
}

static uint32_t find_or_add(struct dp_strings *set, const char *bytes, size_t n_bytes, uint32_t hash)
{
    struct dp_index_probe probe = dp_index_probe(&set->index, hash);
    uint32_t number;
    while ((number = dp_index_candidate(&set->index, &probe)) != DP_INDEX_NONE)
        if (same(set, number, bytes, n_bytes))
            return number;
    if (set->bytes.n + n_bytes + 1 >= UINT32_MAX || !dp_vec_room(&set->bytes, n_bytes + 1) ||
        !dp_vec_room(&set->offsets, 1) || (number = dp_index_add(&set->index, &probe)) == DP_INDEX_NONE)
        return DP_STRINGS_NONE;
    set->offsets.at[set->offsets.n++] = (uint32_t)set->bytes.n;
    memcpy(set->bytes.at + set->bytes.n, bytes, n_bytes);
    set->bytes.at[set->bytes.n + n_bytes] = 0;
    set->bytes.n += n_bytes + 1;
    return number;
}

static uint32_t add(struct dp_strings *set, const char *bytes, size_t n_bytes)
{
    uint32_t number = dp_index_guess(&set->index);
    if (number == DP_INDEX_NONE || !same(set, number, bytes, n_bytes))
        number = find_or_add(set, bytes, n_bytes, dp_strings_hash(bytes, n_bytes));
    if (number != DP_STRINGS_NONE)
        dp_index_seen(&set->index, number);
    return number;
}

uint32_t dp_strings_add(struct dp_strings *set, const char *bytes, size_t n_bytes)
{
    if (!set->offsets.n && add(set, "", 0) == DP_STRINGS_NONE)
        return DP_STRINGS_NONE;
    return n_bytes ? add(set, bytes, n_bytes) : 0;
}

uint32_t dp_strings_hash(const char *bytes, size_t n_bytes)
{
    return (uint32_t)dp_hash_bytes(bytes, n_bytes, dp_index_seed());
}

uint32_t dp_strings_add_hashed(struct dp_strings *set, const char *bytes, size_t n_bytes, uint32_t hash)
{
    if (!set->offsets.n && add(set, "", 0) == DP_STRINGS_NONE)
        return DP_STRINGS_NONE;
    return n_bytes ? find_or_add(set, bytes, n_bytes, hash) : 0;
}

void dp_strings_fini(struct dp_strings *set)
{
    dp_index_fini(&set->index);
    dp_vec_fini(&set->offsets);
    dp_vec_fini(&set->bytes);
}

void dp_strings_clear(struct dp_strings *set)
{
    dp_index_clear(&set->index);
    dp_vec_clear(&set->offsets);
    dp_vec_clear(&set->bytes);
}
