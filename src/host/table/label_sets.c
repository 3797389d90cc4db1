/* SPDX-License-Identifier: MIT */
/*
 * host/table/label_sets.c - finds a label set by its parent and its pair, or makes it.
 *
 * Shape: sets by number, and an index of numbers, open addressing by the hash of (parent, key, value). Both are static
 * and only added to; untouched pages cost nothing. A set is filled before the CAS that puts its number into a word of
 * the index, which goes from 0 to its final value once [SET]: with less than release and acquire a reader could compare
 * texts half written. If two threads push one new pair at once, or a signal handler pushes it while the code that it
 * interrupted does, one of the two loses the CAS, finds the other one's set and leaves its own as a spare for the next
 * new pair. So a pair has one number, and no one waits. A thread that ends in between, or a fork, loses one set.
 *
 * The last eighth of the sets is for the value "[other]" alone, so that a program which labels by request number loses
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

enum { PROBES = 64, WORDS = 2 * DP_LABEL_SETS, ORDINARY = DP_LABEL_SETS / 8 * 7 };

static const char other[] = "[other]";

static struct label_set {
    _Atomic bool is_ready; /* [SET] */
    uint32_t parent;
    uint64_t hash;
    char key[DP_LABEL_KEY_BYTES], value[DP_LABEL_VALUE_BYTES + 1];
} sets[DP_LABEL_SETS] DP_LARGE;
static _Atomic uint32_t words[WORDS] DP_LARGE; /* a set's number; 0: free */
static _Atomic uint32_t n_taken;               /* sets below it are used or were lost */
static _Atomic uint32_t spare;                 /* the number of a set that no one knows; 0: none */

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

/* The number of a set that no one else knows; 0: there is none. */
static uint32_t take_set(void)
{
    uint32_t number = dp_load_relaxed(&spare) ? dp_swap_acq_rel(&spare, 0) : 0, n = dp_load_relaxed(&n_taken);
    while (!number && n < DP_LABEL_SETS)
        if (dp_cas_relaxed(&n_taken, &n, n + 1))
            number = n + 1;
    return number;
}

/* For a set that stays unknown. A second spare is lost. */
static void leave_set(uint32_t number)
{
    if (number)
        dp_swap_acq_rel(&spare, number);
}

static uint32_t fill_set(const struct pair *pair)
{
    uint32_t number = take_set();
    if (!number)
        return 0;
    struct label_set *set = &sets[number - 1];
    set->parent = pair->parent;
    set->hash = pair->hash;
    memset(set->key, 0, sizeof set->key); /* a spare has texts */
    memset(set->value, 0, sizeof set->value);
    memcpy(set->key, pair->key, pair->n_key);
    memcpy(set->value, pair->value, pair->n_value);
    dp_store_release(&set->is_ready, true); /* [SET] */
    return number;
}

/* 0: it is not there, and is not to be made, or there is no room near its index. */
static uint32_t find_or_make(uint32_t parent, const char *key, size_t n_key, const char *value, size_t n_value,
                             bool make)
{
    struct pair pair = {.parent = parent, .key = key, .n_key = n_key, .value = value, .n_value = n_value};
    uint32_t mine = 0;
    pair.hash = hash_text(hash_text(dp_hash_mix(parent + 1), key, n_key), value, n_value);
    for (uint32_t i = 0; i < PROBES; i++) {
        _Atomic uint32_t *word = &words[(uint32_t)(pair.hash + i) % WORDS];
        uint32_t number = dp_load_acquire(word); /* [SET] */
        if (!number) {
            if (!mine && (!make || !(mine = fill_set(&pair))))
                return 0;
            if (dp_cas_publish(word, &number, mine)) /* [SET]; if it failed, `number` is the winner's */
                return mine;
        }
        if (is(&sets[number - 1], &pair)) {
            leave_set(mine);
            return number;
        }
    }
    leave_set(mine);
    return 0;
}

uint32_t dp_label_set_find(uint32_t parent, const char *key, const char *value)
{
    size_t n_key = fitting(key, DP_LABEL_KEY_BYTES - 1), n_value = fitting(value, DP_LABEL_VALUE_BYTES);
    bool ordinary = dp_load_relaxed(&n_taken) < ORDINARY;
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
        if (!dp_load_acquire(&s->is_ready)) /* [SET] */
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
        if (!dp_load_acquire(&s->is_ready) || !dp_cas_relaxed(&is_published[set - 1], &no, true)) /* [SET] */
            return;
        uint32_t at = dp_add_relaxed(&n_published, 1);
        if (!dp_shared_commit(dp_shared_array(DP_ARRAY_LABELS), at + 1))
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
        dp_store_release(&s->is_ready, true); /* [SET] */
    }
    return true;
}
