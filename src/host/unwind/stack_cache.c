/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/stack_cache.c - remembers the last stack of a thread and takes unchanged frames from it. A repeated stack
 * costs a third of a nanosecond per frame.
 *
 * Rule. The state at a frame is (pc, sp, fp). When a new walk comes to a state that the stack cache holds, it joins
 * there: from that position rootward it only compares the words that the old walk read with their current values, and
 * takes the old frames up to the first word that differs. From there it steps by rules, and may join again further
 * rootward.
 *
 * An example on x86-64. The last walk began in `leaf`. Since then `leaf` has returned and `step` has called `other`:
 *
 *     last walk          this walk
 *     leaf  sp 0x100     other sp 0x120   no remembered frame has this state: its caller is found by its rule
 *     step  sp 0x140     step  sp 0x140   pc, sp and fp are those of a remembered frame: the walk joins here
 *     run   sp 0x180     run   sp 0x180   the word at 0x178, where run's pc was read, still has it: taken over
 *     main  sp 0x200     main  sp 0x200   so has the word at 0x1f8; main is the outermost frame: the end
 *
 * One step by a rule and two comparisons give four frames. `leaf` is dropped, `other` becomes the only pending frame,
 * and step, run and main keep their positions. Had the word at 0x178 changed, `run` would not be taken over: the walk
 * would go on from `step` by its rule, and could join again at `main`.
 *
 * Why that gives the frames of a full walk, exactly:
 * 1. A step is a function of the rule of pc and of the state: it yields the CFA as the caller's sp, and reads the
 *    caller's pc, and its fp if the rule says that it was saved, from words at addresses that the state determines.
 *    No other word is read and nothing else decides. (Steps that need more, through a ucontext, a link register or
 *    libunwind, are barred; see 5.)
 * 2. The rule of pc does not change within one generation (unwind_cache.c); a stack cache of another generation is
 *    forgotten, and none is used or kept while an unload is under way.
 * 3. So, by induction from equal states: if the words that the remembered step from frame i read have their old
 *    values, state i+1 is the remembered one. What lies beyond the first word that differs is not used.
 * 4. fp is left out of the comparison where it is not live: where every remembered rule from there rootward reloads it
 *    before it is used as a base. Then its value changes no address and no pc of the remembered rest. At the last frame
 *    it counts as live, because the next frame is not known, unless the last frame is the outermost. After a difference
 *    the remembered rest is not valid, so the true fp is computed again: it is read from the nearest reload leafward,
 *    or, if there is none since the join, it is the fp that the walk arrived with. Liveness is computed again for those
 *    frames.
 * 5. Frames are barred (a walk may not join at them) if they are at or leafward of a step that 1 does not describe, or
 *    of one that read words outside the thread's own stack: memory there may have been unmapped. Within the thread's
 *    own stack, between a live sp and the top, every word can be read at any time, so the checks may read them in any
 *    order.
 *
 * These cases miss, as they must: a library that was replaced by another one (generation), another stack (5), a longjmp
 * or a return (the old leaf frames lie below sp and are skipped), a stack rewritten at the same sp (3), a walk that a
 * signal handler's longjmp left incomplete (`busy`).
 *
 * A frame keeps its position while frames are added and dropped at both ends. Its weight in the hash is a power of B
 * given by its position. So the hash of a range of frames is a difference of two sums, multiplied by an inverse power.
 * Sums, liveness and the bits of words to check are computed for a frame at the first join: most leaf frames are never
 * joined.
 */
#include "host/unwind/stack_cache.h"

#include "base/hash.h"
#include "base/mem.h"
#include "host/unwind/recent_stacks.h"
#include "host/unwind/unwind_cache.h"

#include <errno.h>
#include <string.h>

/* Of a borrowed block only the first 64 bytes are zeroed, so a begin may rely on no others. */
_Static_assert(offsetof(struct dp_stack_cache, at) <= 64, "what says whether the rest is laid out comes first");

static unsigned depth_max;
static uint64_t *powers, *inverses; /* [0, 4 * depth] */

static uint32_t positions(void)
{
    return 4 * depth_max;
}

int dp_stack_cache_init(unsigned depth)
{
    depth_max = depth;
    size_t n = positions() + 1;
    powers = dp_mem_table(2 * n * sizeof *powers);
    if (!powers)
        return -ENOMEM;
    inverses = powers + n;
    uint64_t inverse =
        DP_STACK_BASE; /* Newton's iteration: doubles the correct bits each turn; for an odd number it starts with 3 */
    for (int i = 0; i < 5; i++)
        inverse *= 2 - DP_STACK_BASE * inverse;
    powers[0] = inverses[0] = 1;
    for (size_t i = 1; i < n; i++) {
        powers[i] = powers[i - 1] * DP_STACK_BASE;
        inverses[i] = inverses[i - 1] * inverse;
    }
    return 0;
}

size_t dp_stack_cache_bytes(void)
{
    size_t n = positions() + 1, words = n / 64 + 2;
    return sizeof(struct dp_stack_cache) + (n + 2 * (depth_max + 1)) * sizeof(struct dp_stack_cache_frame) +
           n * sizeof(uint64_t) + 2 * words * sizeof(uint64_t) + (n + 2 * depth_max) * sizeof(dp_frame_id) + n + 7 +
           DP_RECENT_STACKS * sizeof(struct dp_recent_stack);
}

void dp_stack_cache_clear(struct dp_stack_cache *m)
{
    m->at = m->b = m->bar = 2 * depth_max;
    m->n_pending = m->n_barred = 0;
    m->ended = m->any = 0;
    m->recent_set = 0;
    m->known.record = 0;
    m->frames[m->b].sp = UINTPTR_MAX;
    m->pending[0] = m->frames[m->b];
    m->sums[m->b] = 0;
    m->live[m->b] = 1;
}

/* The small arrays come first, in one page: a forked worker copies each page that it writes to. */
static void lay_out(struct dp_stack_cache *m)
{
    size_t n = positions() + 1, words = n / 64 + 2;
    m->pairs = (uint64_t *)(m + 1);
    m->alone = m->pairs + words;
    m->ids = (dp_frame_id *)(m->alone + words);
    m->stage_ids = m->ids + n;
    m->others = m->stage_ids + depth_max;
    m->live = (uint8_t *)(m->others + depth_max);
    m->sums = (uint64_t *)(((uintptr_t)(m->live + n) + 7) & ~(uintptr_t)7);
    m->stage = (struct dp_stack_cache_frame *)(m->sums + n);
    m->pending = m->stage + depth_max + 1;
    m->frames = m->pending + depth_max + 1;
    m->recent = (struct dp_recent_stack *)(m->frames + n);
    dp_stack_cache_clear(m);
}

void dp_stack_cache_begin_anew(struct dp_stack_cache *m, uint32_t generation, bool left)
{
    if (left)
        m->own = (struct dp_own_stack){0};
    if (left || !m->frames)
        lay_out(m);
    else
        dp_stack_cache_clear(m);
    memset(m->states, 0, sizeof m->states);
    memset(m->returns, 0, sizeof m->returns);
    m->generation = generation;
}

/* ---- checking --------------------------------------------------------------------------------------------------- */

/* The word that a frame's pc was read from, by the rule of the frame leafward of it. */
static inline uintptr_t pc_at(const struct dp_stack_cache_frame *f)
{
    return f->sp - dp_stack_cache_ra_slot(dp_unwind_cache_rule(f[-1].value));
}

static inline uintptr_t fp_at(const struct dp_stack_cache_frame *f)
{
    return f->sp - dp_stack_cache_fp_slot(dp_unwind_cache_rule(f[-1].value));
}

uintptr_t dp_stack_cache_return_address(const struct dp_stack_cache *m, uint32_t n)
{
    return dp_reach_read(pc_at(&m->frames[m->at - m->n_pending + n]));
}

/* Whether the rule says that fp and pc were read from two words side by side. */
static inline bool is_pair(uint32_t rule)
{
    return dp_stack_cache_fp_slot(rule) && dp_stack_cache_fp_slot(rule) == dp_stack_cache_ra_slot(rule) + 8;
}

static inline uintptr_t pc_differs(const struct dp_stack_cache_frame *f)
{
    return dp_reach_read(pc_at(f)) ^ f->pc;
}

typedef uint64_t two_words __attribute__((vector_size(16), aligned(8), may_alias));

static inline __attribute__((no_sanitize("address"))) two_words pair_differs(const struct dp_stack_cache_frame *f)
{
    return *(const two_words *)(pc_at(f) - 8) ^ *(const two_words *)&f->fp;
}

/*
 * Each of these returns the first frame of [f, to) for which a word in memory differs from the remembered value, or
 * `to`. The words can be read in any order: one branch for four frames.
 */
static const struct dp_stack_cache_frame *verify_pcs(const struct dp_stack_cache_frame *f,
                                                     const struct dp_stack_cache_frame *to)
{
    for (; to - f >= 4; f += 4)
        if (pc_differs(f) | pc_differs(f + 1) | pc_differs(f + 2) | pc_differs(f + 3))
            break;
    while (f < to && !pc_differs(f))
        f++;
    return f;
}

static const struct dp_stack_cache_frame *verify_pairs(const struct dp_stack_cache_frame *f,
                                                       const struct dp_stack_cache_frame *to)
{
    for (; to - f >= 4; f += 4) {
        two_words differ = pair_differs(f) | pair_differs(f + 1) | pair_differs(f + 2) | pair_differs(f + 3);
        if (differ[0] | differ[1])
            break;
    }
    for (; f < to; f++) {
        two_words differ = pair_differs(f);
        if (differ[0] | differ[1])
            break;
    }
    return f;
}

/* The same by position, for frames whose fp was not read from the word beside their pc. */
static uint32_t verify_alone(const struct dp_stack_cache *m, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i = (i | 63) + 1)
        for (uint64_t bits = m->alone[i / 64] >> (i % 64); bits; bits &= bits - 1) {
            uint32_t at = i + (uint32_t)__builtin_ctzll(bits);
            if (at >= to || dp_reach_read(fp_at(&m->frames[at])) != m->frames[at].fp)
                return at < to ? at : to;
        }
    return to;
}

uint32_t dp_stack_cache_verify(const struct dp_stack_cache *m, uint32_t at, uint32_t end)
{
    const struct dp_stack_cache_frame *frames = m->frames;
    if (!m->any)
        return (uint32_t)(verify_pcs(frames + at + 1, frames + end) - frames) - 1;
    uint32_t i = at + 1, stop;
    do { /* frames with and without frame pointers come in long runs */
        uint64_t bits = m->pairs[i / 64] >> (i % 64), others = (bits & 1 ? ~bits : bits) | (uint64_t)1 << 63;
        uint32_t word_end = (i | 63) + 1;
        stop = i + (uint32_t)__builtin_ctzll(others);
        stop = stop < word_end ? stop : word_end;
        stop = stop < end ? stop : end;
        i = (uint32_t)((bits & 1 ? verify_pairs : verify_pcs)(frames + i, frames + stop) - frames);
    } while (i == stop && i < end);
    return verify_alone(m, at + 1, i) - 1;
}

/* ---- remembering ------------------------------------------------------------------------------------------------ */

/* Whether fp is live at a frame with this rule, given whether it is live at the next frame. */
static inline bool live_before(uint32_t rule, bool live_after)
{
    switch (dp_rule_kind(rule)) {
    case DP_RULE_SP:
        return dp_stack_cache_fp_slot(rule) ? false : live_after;
    case DP_RULE_END:
        return false;
    default:
        return true;
    }
}

/* Computes sums, checks and liveness of [from, to), starting with those of `to`. */
static void derive(struct dp_stack_cache *m, uint32_t from, uint32_t to)
{
    uint64_t sum = m->sums[to], pairs = m->pairs[to / 64], alone = m->alone[to / 64];
    bool live = m->live[to];
    const uint64_t *power = &powers[positions() - to];
    for (uint32_t i = to; i-- > from;) {
        uint64_t value = m->frames[i].value, bit = (uint64_t)1 << ((i + 1) % 64);
        uint32_t rule = dp_unwind_cache_rule(value);
        bool check = live && dp_stack_cache_fp_slot(rule), pair = check && is_pair(rule);
        m->any |= check;
        pairs = pair ? pairs | bit : pairs & ~bit;
        alone = check && !pair ? alone | bit : alone & ~bit;
        if ((i + 1) % 64 == 0) {
            m->pairs[(i + 1) / 64] = pairs;
            m->alone[(i + 1) / 64] = alone;
            pairs = m->pairs[i / 64];
            alone = m->alone[i / 64];
        }
        live = live_before(rule, live);
        m->live[i] = live;
        sum += dp_unwind_cache_frame(value) * *power++;
        m->sums[i] = sum;
    }
    m->pairs[from / 64] = pairs;
    m->alone[from / 64] = alone;
}

uint32_t dp_stack_cache_assign_pending(struct dp_stack_cache *m, uint32_t i)
{
    uint32_t n = m->n_pending - i, from = m->at - n;
    memcpy(&m->frames[from], &m->pending[i], n * sizeof *m->frames);
    derive(m, from, m->at);
    m->at = m->bar = from;
    m->n_pending = 0;
    if (i)
        m->known.record = 0;
    return from;
}

/* Moves the frames from position `from` rootward into the middle; drops those more than two depths away. */
static void recentre(struct dp_stack_cache *m, uint32_t from)
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

void dp_stack_cache_put_frames(struct dp_stack_cache *m, uint32_t at, uint32_t n, uint32_t n_barred, uint64_t hash)
{
    struct dp_stack_cache_frame *staged = m->stage;
    if (n || at != m->at)
        m->known.record = 0;
    if (at == m->b)
        dp_stack_cache_clear(m);
    else
        m->at = m->bar = at;
    if (m->at < n)
        recentre(m, m->at);
    if (n) {
        m->stage = m->pending;
        m->pending = staged;
        memcpy(&m->ids[m->at - n], m->stage_ids, n * sizeof *m->ids);
    }
    m->pending[n] = m->frames[m->at];
    m->n_pending = n;
    m->n_barred = n_barred;
    m->pending_hash = hash;
}

void dp_stack_cache_append(struct dp_stack_cache *m, uint32_t n, uint32_t n_barred)
{
    uint32_t n_more = n - 1;
    if (m->b + n_more > positions())
        recentre(m, m->at - m->n_pending);
    uint32_t from = m->b;
    m->known.record = 0;
    memcpy(&m->frames[from], m->stage + 1, n_more * sizeof *m->frames);
    memcpy(&m->ids[from], m->stage_ids + 1, n_more * sizeof *m->ids);
    for (uint32_t i = from; i < from + n_more; i++)
        m->sums[i + 1] = m->sums[i] - m->ids[i] * powers[positions() - i - 1];
    if (n_barred)
        m->bar = from + n_barred - 1;
    m->b += n_more;
    m->frames[m->b].sp = UINTPTR_MAX;
    m->live[m->b] = 1;
    derive(m, from - 1, m->b);
}

uint64_t dp_stack_cache_hash(const struct dp_stack_cache *m, uint32_t n)
{
    uint32_t end = m->at - m->n_pending + n;
    uint64_t rest = m->at < end ? (m->sums[m->at] - m->sums[end]) * inverses[positions() - end] : 0;
    return dp_hash_mix(m->pending_hash * powers[end - m->at] + rest);
}
