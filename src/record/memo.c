/* SPDX-License-Identifier: MIT */
/*
 * record/memo.c - what makes a repeated stack cost a third of a nanosecond a frame.
 *
 * Rule. The state at a frame is (pc, sp, fp). A new walk that comes to a state which the memo holds joins it there:
 * from that place rootward it only compares the words that the old walk read with what they are now, and takes the old
 * frames up to the first word that differs; there it steps on by itself, and may join again further rootward.
 *
 * Why that gives the frames of a full walk, exactly:
 * 1. A step is a function of the rule of pc and of the state: it yields the CFA as the caller's sp, and reads the
 *    caller's pc, and its fp if the rule says that it was saved, from words at addresses that the state determines.
 *    No other word is read and nothing else decides. (Steps that need more, through a ucontext, a link register or
 *    libunwind, are barred; see 5.)
 * 2. The rule of pc does not change within one generation (recipe.c); a memo of another generation is forgotten, and
 *    none is used or kept while an unload is under way.
 * 3. So, by induction from equal states: if the words that the remembered step from frame i read have their old
 *    values, state i+1 is the remembered one. What lies beyond the first word that differs is not used.
 * 4. fp is left out of the comparison where it is not live: where every remembered rule from there rootward reloads it
 *    before it is used as a base. Then its value changes no address and no pc of the remembered rest. At the last
 *    frame, where nothing is known of what comes next, it counts as live, unless that frame is the outermost. After a
 *    difference the rest is another one, so the true fp is made again: the nearest reload leafward is read once more,
 *    and where there is none since the join it is the fp that the walk came with; and liveness is computed anew for
 *    those frames.
 * 5. Barred are frames at or leafward of a step that 1 does not describe, or that read words outside the thread's own
 *    stack: there an address that was good once may be unmapped now. Within it, between a live sp and its top, every
 *    word can be read at any time, so the checks may read them in any order.
 *
 * So what must make it miss does: a library closed and another one in its place (generation), another stack (5), a
 * longjmp or a return (the stale leaves lie below sp and are passed over), a stack rewritten at the same sp (3), a walk
 * that a signal handler's longjmp left half done (`busy`).
 *
 * Places are fixed while frames come and go at both ends; the weight of a frame in the hash is a power of B by its
 * place, so that a window's hash is a difference of two sums, brought to the bottom by the inverse power. Sums,
 * liveness and the list of words to check are made for a frame when it is joined for the first time: most leaves never
 * are.
 */
#include "record/memo.h"

#include "base/atomic.h"
#include "base/hash.h"
#include "base/mem.h"
#include "record/recipe.h"

#include <errno.h>
#include <string.h>

/* A borrowed block comes with its first 64 bytes zeroed, and those must be all that a begin relies on. */
_Static_assert(offsetof(struct dp_memo, at) <= 64, "what says whether the rest is laid out comes first");

static unsigned depth_max;
static uint64_t *powers, *inverses; /* [0, 4 * depth] */

static uint32_t places(void)
{
    return 4 * depth_max;
}

int dp_memo_init(unsigned depth)
{
    depth_max = depth;
    size_t n = places() + 1;
    powers = dp_mem_table(2 * n * sizeof *powers);
    if (!powers)
        return -ENOMEM;
    inverses = powers + n;
    uint64_t inverse =
        DP_STACK_BASE; /* Newton: each turn doubles the good bits, of which an odd number starts with 3 */
    for (int i = 0; i < 5; i++)
        inverse *= 2 - DP_STACK_BASE * inverse;
    powers[0] = inverses[0] = 1;
    for (size_t i = 1; i < n; i++) {
        powers[i] = powers[i - 1] * DP_STACK_BASE;
        inverses[i] = inverses[i - 1] * inverse;
    }
    return 0;
}

size_t dp_memo_bytes(void)
{
    size_t n = places() + 1, words = n / 64 + 2;
    return sizeof(struct dp_memo) + (n + 2 * (depth_max + 1)) * sizeof(struct dp_memo_frame) + n * sizeof(uint64_t) +
           words * sizeof(uint64_t) + (n + 2 * depth_max) * sizeof(dp_frame_id) + n;
}

void dp_memo_forget(struct dp_memo *m)
{
    m->at = m->b = m->bar = 2 * depth_max;
    m->n_pending = m->n_barred = 0;
    m->ended = 0;
    m->frames[m->b].sp = UINTPTR_MAX;
    m->pending[0] = m->frames[m->b];
    m->sums[m->b] = 0;
    m->live[m->b] = 1;
}

static void lay_out(struct dp_memo *m)
{
    size_t n = places() + 1;
    m->frames = (struct dp_memo_frame *)(m + 1);
    m->stage = m->frames + n;
    m->pending = m->stage + depth_max + 1;
    m->sums = (uint64_t *)(m->pending + depth_max + 1);
    m->checked = m->sums + n;
    m->ids = (dp_frame_id *)(m->checked + n / 64 + 2);
    m->stage_ids = m->ids + n;
    m->others = m->stage_ids + depth_max;
    m->live = (uint8_t *)(m->others + depth_max);
    dp_memo_forget(m);
}

void dp_memo_begin(struct dp_memo *m, uint32_t generation)
{
    if (!m->frames)
        lay_out(m);
    if (m->busy)
        m->own = (struct dp_own_stack){0};
    if (m->generation != generation || m->busy || !generation)
        dp_memo_forget(m);
    m->generation = generation;
    m->busy = 1;
    dp_fence_signal();
}

void dp_memo_end(struct dp_memo *m)
{
    dp_fence_signal();
    m->busy = 0;
}

/* ---- checking --------------------------------------------------------------------------------------------------- */

/* The word that the pc of place i was read from. */
static inline uintptr_t pc_at(const struct dp_memo *m, uint32_t i)
{
    return m->frames[i].sp - dp_memo_ra_slot(dp_recipe_rule(m->frames[i - 1].value));
}

uintptr_t dp_memo_return_address(const struct dp_memo *m, uint32_t n)
{
    return dp_reach_read(pc_at(m, m->at - m->n_pending + n));
}

static inline uintptr_t fp_at(const struct dp_memo *m, uint32_t i)
{
    return m->frames[i].sp - dp_memo_fp_slot(dp_recipe_rule(m->frames[i - 1].value));
}

static inline uintptr_t fp_differs(const struct dp_memo *m, uint32_t i)
{
    return dp_reach_read(fp_at(m, i)) ^ m->frames[i].fp;
}

/* Of the places [from, to) whose frame pointer must be what it was the first that is not, or `to`. They come in runs.
 */
static uint32_t verify_fps(const struct dp_memo *m, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to;) {
        uint64_t bits = m->checked[i / 64] >> (i % 64);
        if (!bits) {
            i = (i | 63) + 1;
            continue;
        }
        i += (uint32_t)__builtin_ctzll(bits);
        bits >>= __builtin_ctzll(bits);
        uint32_t run = ~bits ? (uint32_t)__builtin_ctzll(~bits) : 64, end = i + run < to ? i + run : to;
        for (; i + 2 <= end; i += 2)
            if (fp_differs(m, i) | fp_differs(m, i + 1))
                break;
        for (; i < end; i++)
            if (fp_differs(m, i))
                return i;
    }
    return to;
}

uint32_t dp_memo_verify(const struct dp_memo *m, uint32_t at, uint32_t end)
{
    uint32_t i = at + 1;
    for (; i + 4 <= end; i += 4) { /* all these words can be read, in whatever order: one branch for four */
        uintptr_t differ = (dp_reach_read(pc_at(m, i)) ^ m->frames[i].pc) |
                           (dp_reach_read(pc_at(m, i + 1)) ^ m->frames[i + 1].pc) |
                           (dp_reach_read(pc_at(m, i + 2)) ^ m->frames[i + 2].pc) |
                           (dp_reach_read(pc_at(m, i + 3)) ^ m->frames[i + 3].pc);
        if (differ)
            break;
    }
    while (i < end && dp_reach_read(pc_at(m, i)) == m->frames[i].pc)
        i++;
    return verify_fps(m, at + 1, i) - 1;
}

/* ---- remembering ------------------------------------------------------------------------------------------------ */

/* Whether fp matters at a frame with this rule, when it does, or does not, at the next one. */
static inline bool live_before(uint32_t rule, bool live_after)
{
    switch (dp_rule_kind(rule)) {
    case DP_RULE_SP:
        return dp_memo_fp_slot(rule) ? false : live_after;
    case DP_RULE_END:
        return false;
    default:
        return true;
    }
}

/* Sums, checks and liveness of [from, to), from those of `to`. */
static void derive(struct dp_memo *m, uint32_t from, uint32_t to)
{
    uint64_t sum = m->sums[to], bits = m->checked[to / 64];
    bool live = m->live[to];
    const uint64_t *power = &powers[places() - to];
    for (uint32_t i = to; i-- > from;) {
        uint64_t value = m->frames[i].value, bit = (uint64_t)1 << ((i + 1) % 64);
        bits = live && dp_memo_fp_slot(dp_recipe_rule(value)) ? bits | bit : bits & ~bit;
        if ((i + 1) % 64 == 0) {
            m->checked[(i + 1) / 64] = bits;
            bits = m->checked[i / 64];
        }
        live = live_before(dp_recipe_rule(value), live);
        m->live[i] = live;
        sum += dp_recipe_frame(value) * *power++;
        m->sums[i] = sum;
    }
    m->checked[from / 64] = bits;
}

uint32_t dp_memo_settle(struct dp_memo *m, uint32_t i)
{
    uint32_t n = m->n_pending - i, from = m->at - n;
    memcpy(&m->frames[from], &m->pending[i], n * sizeof *m->frames);
    derive(m, from, m->at);
    m->at = m->bar = from;
    m->n_pending = 0;
    return from;
}

/* Moves all that lies at place `from` and behind it into the middle, dropping what is further rootward than two depths.
 */
static void recentre(struct dp_memo *m, uint32_t from)
{
    uint32_t n = m->b - from;
    if (n > 2 * depth_max) {
        n = 2 * depth_max;
        m->ended = 0;
    }
    memmove(&m->frames[depth_max], &m->frames[from], n * sizeof *m->frames);
    memmove(&m->ids[depth_max], &m->ids[from], n * sizeof *m->ids);
    m->at += depth_max - from;
    m->bar += depth_max - from;
    m->b = depth_max + n;
    m->frames[m->b].sp = UINTPTR_MAX;
    m->sums[m->b] = 0;
    m->live[m->b] = 1;
    derive(m, m->at, m->b);
}

void dp_memo_place(struct dp_memo *m, uint32_t at, uint32_t n, uint32_t n_barred, uint64_t hash)
{
    struct dp_memo_frame *staged = m->stage;
    if (at == m->b)
        dp_memo_forget(m);
    else
        m->at = m->bar = at;
    if (m->at < n)
        recentre(m, m->at);
    m->stage = m->pending;
    m->pending = staged;
    m->pending[n] = m->frames[m->at];
    m->n_pending = n;
    m->n_barred = n_barred;
    m->pending_hash = hash;
    memcpy(&m->ids[m->at - n], m->stage_ids, n * sizeof *m->ids);
}

void dp_memo_append(struct dp_memo *m, uint32_t n, uint32_t n_barred)
{
    if (m->b + n > places())
        recentre(m, m->at - m->n_pending);
    uint32_t from = m->b;
    memcpy(&m->frames[from], m->stage, n * sizeof *m->frames);
    memcpy(&m->ids[from], m->stage_ids, n * sizeof *m->ids);
    for (uint32_t i = from; i < from + n; i++)
        m->sums[i + 1] = m->sums[i] - m->ids[i] * powers[places() - i - 1];
    if (n_barred)
        m->bar = from + n_barred;
    m->b += n;
    m->frames[m->b].sp = UINTPTR_MAX;
    m->live[m->b] = 1;
    derive(m, from - 1, m->b);
}

uint64_t dp_memo_hash(const struct dp_memo *m, uint32_t n)
{
    uint32_t end = m->at - m->n_pending + n;
    uint64_t rest = m->at < end ? (m->sums[m->at] - m->sums[end]) * inverses[places() - end] : 0;
    return dp_hash_mix(m->pending_hash * powers[end - m->at] + rest);
}
