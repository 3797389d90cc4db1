/* SPDX-License-Identifier: MIT */
/*
 * host/table/label_sets.c - finds a label set by its parent and its pair, or makes it.
 *
 * Shape: a static table that is only added to, open addressing by the hash of (parent, key, value). Untouched pages
 * cost nothing. A slot goes FREE -> CLAIMED -> READY. [SET]: READY is released after the texts and acquired before they
 * are compared; with less, a reader could compare texts half written. A slot that is CLAIMED is passed by: its writer
 * may be the code that this signal handler interrupted, or may have been left behind by a fork. So two threads that
 * push one new pair at once may make it twice: then two rows of a profile have the same labels, and sums over labels
 * stay true.
 *
 * The last eighth of the table is for the value "[other]" alone, so that a program which labels by request number loses
 * the numbers and not the key. A search ends after PROBES slots: a full table costs a push no more than that.
 */
#include "host/table/label_sets.h"

#include "base/atomic.h"
#include "base/hash.h"
#include "base/mem.h"
#include "host/shared/shared.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum { FREE, CLAIMED, READY };
enum { PROBES = 64, ORDINARY = DP_LABEL_SETS / 8 * 7 };

static const char other[] = "[other]";

static struct label_set {
    _Atomic uint32_t state;
    uint32_t parent;
    uint64_t hash;
    char key[DP_LABEL_KEY_BYTES], value[DP_LABEL_VALUE_BYTES + 1];
} sets[DP_LABEL_SETS] DP_LARGE;
static _Atomic uint32_t n_sets; /* relaxed: when to begin with [other] */

/* A set as other processes read it: those that records refer to are copied, one after the other. */
struct published {
    uint32_t set, parent;
    char key[DP_LABEL_KEY_BYTES], value[DP_LABEL_VALUE_BYTES + 1];
};
static _Atomic bool is_published[DP_LABEL_SETS] DP_LARGE;
static _Atomic uint32_t n_published;

/* Bytes of a text that fit; a character of UTF-8 is not cut in two. */
static size_t fitting(const char *text, size_t max)
{
    size_t n = 0;
    while (n <= max && text[n])
        n++;
    if (n <= max)
        return n;
    for (n = max; n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80; n--) {
    }
    return n;
}

static uint64_t hash_text(uint64_t hash, const char *text, size_t n)
{
    while (n >= 8) {
        uint64_t word;
        memcpy(&word, text, sizeof word);
        hash = dp_hash_mix(hash ^ word);
        text += 8;
        n -= 8;
    }
    uint64_t rest = n;
    for (size_t i = 0; i < n; i++)
        rest = rest << 8 | (unsigned char)text[i];
    return dp_hash_mix(hash ^ rest);
}

struct pair {
    uint32_t parent;
    uint64_t hash;
    const char *key, *value;
    size_t n_key, n_value;
};

static bool is(const struct label_set *set, const struct pair *pair)
{
    return set->hash == pair->hash && set->parent == pair->parent && !memcmp(set->key, pair->key, pair->n_key) &&
           !set->key[pair->n_key] && !memcmp(set->value, pair->value, pair->n_value) && !set->value[pair->n_value];
}

static bool fill(struct label_set *set, const struct pair *pair)
{
    uint32_t free = FREE;
    if (!dp_cas_relaxed(&set->state, &free, CLAIMED))
        return false;
    set->parent = pair->parent;
    set->hash = pair->hash;
    memcpy(set->key, pair->key, pair->n_key); /* the rest is 0, as it always was */
    memcpy(set->value, pair->value, pair->n_value);
    dp_add_relaxed(&n_sets, 1);
    dp_store_release(&set->state, READY); /* [SET] */
    return true;
}

/* 0: it is not there, and is not to be made, or there is no room near its index. */
static uint32_t find_or_make(uint32_t parent, const char *key, size_t n_key, const char *value, size_t n_value,
                             bool make)
{
    struct pair pair = {.parent = parent, .key = key, .n_key = n_key, .value = value, .n_value = n_value};
    pair.hash = hash_text(hash_text(dp_hash_mix(parent + 1), key, n_key), value, n_value);
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t at = (uint32_t)(pair.hash + i) % DP_LABEL_SETS;
        uint32_t state = dp_load_acquire(&sets[at].state); /* [SET] */
        if (state == READY && is(&sets[at], &pair))
            return at + 1;
        if (state == FREE && !make)
            return 0;
        if (state == FREE && fill(&sets[at], &pair))
            return at + 1;
    }
    return 0;
}

uint32_t dp_label_set_find(uint32_t parent, const char *key, const char *value)
{
    size_t n_key = fitting(key, DP_LABEL_KEY_BYTES - 1), n_value = fitting(value, DP_LABEL_VALUE_BYTES);
    bool ordinary = dp_load_relaxed(&n_sets) < ORDINARY;
    uint32_t set = find_or_make(parent, key, n_key, value, n_value, ordinary);
    return set ? set : find_or_make(parent, key, n_key, other, sizeof other - 1, true);
}

uint32_t dp_label_set_parent(uint32_t set)
{
    return set && set <= DP_LABEL_SETS ? sets[set - 1].parent : 0;
}

static bool has(const struct dp_label *pairs, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(pairs[i].key, key))
            return true;
    return false;
}

size_t dp_label_set_pairs(uint32_t set, struct dp_label *pairs, size_t max)
{
    size_t n = 0;
    for (int depth = 0; set && depth < DP_LABEL_SETS && n < max; depth++, set = dp_label_set_parent(set)) {
        const struct label_set *s = &sets[set - 1];
        if (dp_load_acquire(&s->state) != READY) /* [SET] */
            break;
        if (*s->key && !has(pairs, n, s->key)) /* an inner pair hides an outer one of its key */
            pairs[n++] = (struct dp_label){s->key, s->value};
    }
    return n;
}

/* ---- copies for other processes ---- */

int dp_label_sets_share(void)
{
    if (dp_shared_array_init(DP_ARRAY_LABELS, sizeof(struct published), 0, DP_LABEL_SETS, 1))
        return -ENOMEM;
    dp_shared_array(DP_ARRAY_LABELS)->used = &n_published;
    return 0;
}

void dp_label_set_publish(uint32_t set)
{
    struct published *to = dp_shared_at(DP_ARRAY_LABELS);
    for (; to && set && set <= DP_LABEL_SETS; set = dp_label_set_parent(set)) {
        const struct label_set *s = &sets[set - 1];
        bool no = false;
        if (dp_load_acquire(&s->state) != READY || !dp_cas_relaxed(&is_published[set - 1], &no, true)) /* [SET] */
            return;
        uint32_t at = dp_add_relaxed(&n_published, 1);
        if (!dp_shared_reach(dp_shared_array(DP_ARRAY_LABELS), at + 1))
            return;
        to[at].parent = s->parent;
        memcpy(to[at].key, s->key, sizeof s->key);
        memcpy(to[at].value, s->value, sizeof s->value);
        to[at].set = set;
    }
}

/* A set in a file is put at its own number, so that the labels of its records find it. */
bool dp_label_set_adopt(uint32_t n)
{
    const struct published *from = dp_shared_at(DP_ARRAY_LABELS);
    for (uint32_t i = 0; i < n; i++) {
        const struct published *p = &from[i];
        if (!p->set) /* it was being written */
            continue;
        if (p->set > DP_LABEL_SETS || p->parent > DP_LABEL_SETS || !memchr(p->key, 0, sizeof p->key) ||
            !memchr(p->value, 0, sizeof p->value))
            return false;
        struct label_set *s = &sets[p->set - 1];
        s->parent = p->parent;
        memcpy(s->key, p->key, sizeof s->key);
        memcpy(s->value, p->value, sizeof s->value);
        dp_store_release(&s->state, READY); /* [SET] */
    }
    return true;
}
