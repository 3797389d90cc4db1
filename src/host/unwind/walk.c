/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/walk.c - walks a stack by cached rules. For each frame: look up its rule, compute the CFA, read the
 * caller's pc from the stack.
 *
 * The cost of a frame is a chain of dependent loads: the return address gives the row, the row the CFA, the CFA the
 * next return address. All else (bounds, the search for a position to join the stack cache, storing the state) runs in
 * parallel in the processor. `advance` is the fast path: common rules only, all state in registers, no calls. `run`
 * handles every other case and calls `advance` again.
 *
 * A walk has three kinds of parts: frames found by stepping (staged), frames taken over from the middle of the stack
 * cache (staged too, with their true fp), and the rest of the stack cache, which keeps its positions. It ends after
 * `depth` frames at the latest. sp may go backwards, as it does where code runs on another stack, at most TURNS_MAX
 * times.
 */
#include "host/unwind/walk.h"

#include "host/unwind/walk_step.h"

/*
 * The step from code that LuaJIT compiled (a trace) to the caller of LuaJIT's interpreter.
 *
 * A trace has no unwind rules and keeps no frame pointer. The interpreter jumps into it. The trace keeps the
 * interpreter's frame, and puts its own words below: two saved registers, and up to 1 KiB of values. How many is not
 * known, but the frame above them has a fixed form, and is aligned:
 *
 *     frame + 80               what lua_pcall had on the stack
 *     frame + 72               return address, into lua_pcall
 *     frame + 64               saved rbp
 *     frame + 16               the Lua state, whose member cframe holds `frame`
 *     frame                    a scratch word
 *                              two registers, values of the trace
 *     sp                       (below: what the trace called)
 *
 * When the interpreter leaves a trace, it puts up to 512 bytes of registers below, and its unwind data do not say so
 * (known_code.h). The step is the same.
 *
 * So the step searches upwards for a word that is a Lua state which says that this very frame is its current one.
 * Words that calls left behind cannot deceive it, not even whole frames: LuaJIT moves the mark with each frame of its
 * interpreter, and takes it back when the frame ends. A copy of a frame lies at another address than its mark says.
 *
 * The state is not on the stack, and a word that is none may point anywhere, so the kernel compares the mark. Other
 * memory may hold the address of a frame as well, such as the stack cache. So the kernel also compares the object's
 * header, which says that it is a state. If what the trace called has entered the interpreter again for the same state,
 * the current frame is one that the walk has passed, and it has the address of the one before.
 *
 * The return address must also follow a call, in code with unwind data. If no frame passes, the stack ends at the
 * trace. The mark is no word of the stack, so the frames up to the trace are barred from the stack cache: each walk
 * makes this step again. It costs one comparison by the kernel, because states and return addresses that passed once
 * are remembered. At most it costs two for each of 98 places.
 */
#if defined(__x86_64__)

/* lj_frame.h and lj_obj.h of LuaJIT 2.1, with 64-bit references. */
enum {
    HOST_BYTES = 80,
    HOST_STATE = 16,
    HOST_PREVIOUS = 32, /* the state's frame before this one, with marks in its low bits */
    HOST_FP = 64,
    HOST_RETURN = 72,
    HOST_ALIGNMENT = 16,
    STATE_HEADER = 8, /* four bytes: colour, type, function id, status */
    STATE_CFRAME = 80,
    RESUMED = 1, /* in cframe: the frame runs a coroutine */
    TRACE_MAX = 1024 + 16 + 512
};

/* Whether the words at `frame` may be a frame of the interpreter. Most places are ruled out here. */
static bool may_be_host(const struct walk *w, uintptr_t frame)
{
    uintptr_t state = dp_reach_read(frame + HOST_STATE),
              previous = dp_reach_read(frame + HOST_PREVIOUS) & ~(uintptr_t)3;
    return state % 8 == 0 && dp_walk_plausible(state) && state - w->reach.lo >= w->reach.hi - w->reach.lo &&
           (!previous || (previous > frame && previous < w->reach.hi)) &&
           dp_walk_plausible(dp_reach_read(frame + HOST_RETURN));
}

/* Whether an object has the header of a Lua state that runs. The first ones are states of their own, then coroutines.
 */
static bool is_state(uintptr_t state)
{
    enum { THREAD = 6 << 8, C_FUNCTION = 1 << 16 };
    static const uint8_t colours[] = {0x61, 0x62, 0x60, 0x01, 0x02, 0x00, 0x64, 0x04};
    for (unsigned i = 0; i < sizeof colours; i++)
        if (dp_reach_compare(state + STATE_HEADER, (uint32_t)(colours[i] | THREAD | C_FUNCTION)) > 0)
            return true;
    return false;
}

/* Where a Lua state or a return address is remembered after it was checked. */
static uintptr_t *place_of(uintptr_t known[DP_KNOWN_HOSTS], uintptr_t checked)
{
    return &known[(checked * DP_STACK_BASE >> 60) % DP_KNOWN_HOSTS];
}

/* Whether the Lua state in this frame says that the frame is its current one. */
static bool is_current(struct dp_stack_cache *cache, uintptr_t frame)
{
    uintptr_t state = dp_reach_read(frame + HOST_STATE), cframe = state + STATE_CFRAME;
    int same = dp_reach_compare(cframe, (uint32_t)frame);
    if (!same)
        same = dp_reach_compare(cframe, (uint32_t)frame | RESUMED);
    if (same <= 0)
        return false;
    uintptr_t *known = place_of(cache->states, state);
    if (*known == state)
        return true;
    if (dp_reach_compare(cframe + 4, (uint32_t)(frame >> 32)) <= 0 || !is_state(state))
        return false;
    *known = state;
    return true;
}

/* Whether code with unwind data called the interpreter, and this is its return address. */
static bool is_return(struct dp_stack_cache *cache, uintptr_t pc)
{
    uint64_t value = dp_unwind_cache_get(pc, cache->generation);
    uintptr_t *known = place_of(cache->returns, pc);
    if (dp_rule_kind(dp_unwind_cache_rule(value)) == DP_RULE_NONE || (*known != pc && !dp_known_follows_call(pc)))
        return false;
    *known = pc;
    return true;
}

/*
 * If what the trace called has entered the interpreter again for the same state, that frame of the interpreter names
 * this one as its previous one. Searches it among the frames of this walk. 0: there is none.
 */
static uintptr_t next_host(const struct walk *w, const struct dp_stack_cache *cache, uintptr_t frame)
{
    const struct dp_stack_cache_frame *stage = cache->stage;
    for (uint32_t i = 1; i < w->n; i++) {
        uintptr_t inner = stage[i].sp - HOST_BYTES; /* below the sp of its caller */
        if (stage[i - 1].sp >= w->reach.lo && stage[i - 1].sp <= inner && inner < frame && inner % 8 == 0 &&
            (dp_reach_read(inner + HOST_PREVIOUS) & ~(uintptr_t)3) == frame &&
            dp_reach_read(inner + HOST_STATE) == dp_reach_read(frame + HOST_STATE))
            return inner;
    }
    return 0;
}

/* Whether the frame is the current one of its state, or was it when the interpreter was entered again, rootward. */
static bool is_host(const struct walk *w, struct dp_stack_cache *cache, uintptr_t frame)
{
    enum { ENTERED_MAX = 16 };
    for (int n = 0; frame && n < ENTERED_MAX; n++) {
        if (is_current(cache, frame))
            return true;
        frame = next_host(w, cache, frame);
    }
    return false;
}

static bool step_hosted(struct walk *w, struct dp_stack_cache *cache)
{
    w->n_barred = w->n;
    if (w->foreign || !on_own_stack(w) || w->sp < w->reach.lo || w->sp > w->reach.hi)
        return false;
    uintptr_t frame = (w->sp + HOST_ALIGNMENT - 1) & ~(uintptr_t)(HOST_ALIGNMENT - 1), last = w->sp + TRACE_MAX;
    for (; frame <= last && frame < w->reach.hi && w->reach.hi - frame >= HOST_BYTES; frame += HOST_ALIGNMENT) {
        if (!may_be_host(w, frame) || !is_host(w, cache, frame))
            continue;
        uintptr_t pc = dp_reach_read(frame + HOST_RETURN);
        if (!is_return(cache, pc))
            continue;
        w->link = 0;
        w->pc = pc;
        w->sp = frame + HOST_BYTES;
        w->fp = dp_reach_read(frame + HOST_FP);
        return true;
    }
    return false;
}

#else

static bool step_hosted(struct walk *w, struct dp_stack_cache *cache)
{
    (void)w, (void)cache;
    return false;
}

#endif

static inline void enter(struct walk *w, struct dp_stack_cache *cache, uint64_t value)
{
    cache->stage[w->n] = (struct dp_stack_cache_frame){.fp = w->fp, .pc = w->pc, .sp = w->sp, .value = value};
    cache->stage_ids[w->n++] = dp_unwind_cache_frame(value);
    w->hash = w->hash * DP_STACK_BASE + dp_unwind_cache_frame(value);
    w->value = value;
    w->tried = false;
}

/* Copies the frames at positions [at, last] into stage, with the fp that they have in this walk. */
static void take_over(struct walk *w, struct dp_stack_cache *cache, uint32_t at, uint32_t last)
{
    for (uint32_t i = at; i <= last; i++) {
        uintptr_t slot = i == at ? 0 : dp_stack_cache_fp_slot(dp_unwind_cache_rule(cache->frames[i - 1].value));
        w->pc = cache->frames[i].pc;
        w->sp = cache->frames[i].sp;
        if (slot)
            w->fp = dp_reach_read(w->sp - slot);
        enter(w, cache, cache->frames[i].value);
    }
}

/*
 * The next frame has the candidate's pc and sp. True: it is the candidate, at position *at; the frames up to *last are
 * still as remembered. *end bounds the frames that were compared: those that fit in stage.
 */
static bool join(struct walk *w, struct dp_stack_cache *cache, uint32_t *at, uint32_t *end, uint32_t *last)
{
    const struct dp_stack_cache_frame *c = w->candidate;
    w->tried = true;
    if (w->n == w->limit)
        return false;
    if (c >= cache->pending && c <= cache->pending + cache->n_pending)
        w->candidate = &cache->frames[dp_stack_cache_assign(cache, (uint32_t)(c - cache->pending))];
    *at = (uint32_t)(w->candidate - cache->frames);
    if (cache->frames[*at].fp != w->fp && cache->live[*at])
        return false;
    *end = cache->b - *at > w->limit - w->n ? *at + w->limit - w->n : cache->b;
    *last = dp_stack_cache_verify(cache, *at, *end);
    if (w->foreign) { /* now back on the thread's own stack */
        w->n_barred = w->n;
        w->reach.lo = w->reach.own->lo;
        w->reach.hi = w->reach.own->hi;
        w->foreign = false;
    }
    return true;
}

/* The first frame of the stack cache, from the candidate rootward, that does not lie below sp. */
static inline const struct dp_stack_cache_frame *pass(const struct dp_stack_cache *cache,
                                                      const struct dp_stack_cache_frame *c, uintptr_t sp)
{
    while (c->sp < sp)
        c = c == cache->pending + cache->n_pending ? &cache->frames[cache->at + 1] : c + 1;
    return c;
}

enum halt {
    AT_CANDIDATE, /* the next frame has the candidate's pc and sp */
    AT_LIMIT,     /* stage is full */
    NO_ROW,       /* the next frame has no row in the unwind cache */
    AT_RULE       /* the rule of the frame entered last is not a common one */
};

/*
 * The fast path: enters frames and steps, by common rules only.
 *
 * x86_64: with the usual rules all words of a step lie at or above its base. If the base lies in the readable range,
 * one comparison is left: the CFA against the range's end. If fp was not saved, the word at the CFA is read and not
 * used, because a branch there could not be predicted.
 */
static __attribute__((noinline)) enum halt advance(struct walk *w, struct dp_stack_cache *cache)
{
    _Atomic uint64_t *rows = dp_unwind_cache_rows;
    uint64_t mask = dp_load_relaxed(&dp_unwind_cache_mask),
             generation_key = dp_unwind_cache_generation_key(cache->generation), hash = w->hash, value = w->value;
    uintptr_t pc = w->pc, sp = w->sp, fp = w->fp, candidate = w->candidate->sp;
    struct dp_stack_cache_frame *frame = cache->stage + w->n, *end = cache->stage + w->limit;
    dp_frame_id *id = cache->stage_ids + w->n;
    enum halt halt;
    __asm__(""
            : "+r"(generation_key),
              "+r"(end)); /* keeps them in registers; the compiler would recompute them for each frame */
#if defined(__x86_64__)
    uintptr_t hi = sp - w->reach.lo <= w->reach.hi - w->reach.lo && sp % 8 == 0 ? w->reach.hi : 0;
#endif

    if (w->tried)
        goto untried;
    for (;;) {
        if (__builtin_expect(candidate <= sp, 0)) {
            w->candidate = pass(cache, w->candidate, sp);
            candidate = w->candidate->sp;
            if (candidate == sp && w->candidate->pc == pc) {
                halt = AT_CANDIDATE;
                break;
            }
        }
    untried:
        if (__builtin_expect(frame == end, 0)) {
            halt = AT_LIMIT;
            break;
        }
        uintptr_t code = dp_walk_strip(pc);
        if (__builtin_expect(!dp_unwind_cache_peek(rows, mask, generation_key, code, &value), 0)) {
            halt = NO_ROW;
            break;
        }
        *frame++ = (struct dp_stack_cache_frame){.fp = fp, .pc = pc, .sp = sp, .value = value};
        *id++ = dp_unwind_cache_frame(value);
        hash = hash * DP_STACK_BASE + dp_unwind_cache_frame(value);
#if defined(__x86_64__)
        uintptr_t base = sp;
        if (__builtin_expect(!dp_rule_is_usual(value, DP_RULE_SP), 0)) {
            if (!dp_rule_is_usual(value, DP_RULE_FP) || fp - sp >= hi - sp || fp % 8)
                goto at_rule;
            base = fp;
        }
        uintptr_t words = dp_rule_usual_offset(value), also = words, cfa = base + words * 8;
        __asm__("" : "+r"(also)); /* the load of the return address need not wait for the CFA */
        if (__builtin_expect(cfa >= hi, 0))
            goto at_rule;
        intptr_t slot = dp_rule_usual_slot(value);
        uintptr_t saved = dp_reach_read(cfa + (uintptr_t)slot * 8);
        fp = slot ? saved : fp;
        pc = dp_reach_read(base + also * 8 - 8);
        sp = cfa;
        continue;
    at_rule:
#endif
        halt = AT_RULE;
        break;
    }
    w->pc = pc;
    w->sp = sp;
    w->fp = fp;
    w->n = (uint32_t)(frame - cache->stage);
    w->hash = hash;
    w->value = value;
    w->tried = false;
    return halt;
}

/* Steps from the frame entered last. False: the walk ends here, for the reason in *how. */
static bool step_from(struct walk *w, struct dp_stack_cache *cache, enum dp_walk_end *how)
{
    for (;;) {
        uint32_t rule = dp_unwind_cache_rule(w->value);
        *how = DP_WALK_CUT;
        switch (dp_rule_kind(rule)) {
        case DP_RULE_SP:
        case DP_RULE_FP:
            return step(w, rule);
        case DP_RULE_SIGNAL:
        case DP_RULE_SP_EXACT:
        case DP_RULE_FP_EXACT:
            if (!step_exact(w, rule) || !dp_walk_plausible(w->pc) || w->n == w->limit)
                return false;
            /* interrupted frame: no join is possible */
            enter(w, cache, dp_unwind_cache_exact(w->pc, cache->generation));
            continue;
        case DP_RULE_END:
            w->ended = true;
            *how = DP_WALK_WHOLE;
            return false;
        case DP_RULE_NONE:
            if (rule == dp_rule_hosted())
                return step_hosted(w, cache);
            return step_bare(w, cache->generation);
        case DP_RULE_LIBUNWIND:
            *how = DP_WALK_LIBUNWIND;
            return false;
        default:
            return false;
        }
    }
}

/*
 * Steps until stage is full, the walk ends, or it has joined the stack cache for good: then *joined is the position
 * that follows stage, and the caller has to find the end.
 */
static enum dp_walk_end run(struct walk *w, struct dp_stack_cache *cache, enum halt halt, uint32_t *joined)
{
    for (;; halt = advance(w, cache)) {
        enum dp_walk_end how;
        uint32_t at, end, last;
        uintptr_t code;
        switch (halt) {
        case AT_CANDIDATE:
            if (!join(w, cache, &at, &end, &last))
                continue;
            if (last + 1 == end) {
                *joined = at;
                return DP_WALK_CUT;
            }
            take_over(w, cache, at, last);
            w->candidate = &cache->frames[last + 1];
            break;
        case AT_LIMIT: /* a zero return address ends the stacks of threads made by raw clone */
            return dp_walk_strip(w->pc) ? DP_WALK_CUT : DP_WALK_WHOLE;
        case NO_ROW:
            code = dp_walk_strip(w->pc);
            if (!dp_walk_plausible(code))
                return code ? DP_WALK_CUT : DP_WALK_WHOLE;
            enter(w, cache, dp_unwind_cache_fill(code, cache->generation));
            break;
        case AT_RULE:
            break;
        }
        if (!step_from(w, cache, &how))
            return how;
    }
}

static uint32_t n_barred(const struct walk *w)
{
    return w->foreign || w->n_barred > w->n ? w->n : w->n_barred;
}

/* The stack cache holds the leaf side of the stack and the depth allows more frames: continues from its last frame. */
static enum dp_walk_end run_on(struct walk *w, struct dp_stack_cache *cache, uint32_t limit)
{
    const struct dp_stack_cache_frame *last = &cache->frames[cache->b - 1];
    enum dp_walk_end end;
    uint32_t nowhere;
    w->pc = last->pc;
    w->sp = last->sp;
    w->fp = last->fp;
    w->value = last->value;
    w->candidate = &cache->frames[cache->b];
    cache->stage[0] = *last;
    cache->stage_ids[0] = dp_unwind_cache_frame(last->value);
    w->n = 1;
    w->n_barred = 0;
    w->limit = limit + 1;
    w->hash = 0;
    if (step_from(w, cache, &end))
        end = run(w, cache, advance(w, cache), &nowhere);
    if (w->n > 1)
        dp_stack_cache_append(cache, w->n, n_barred(w));
    cache->ended = w->ended;
    return end;
}

enum dp_walk_end dp_walk(struct dp_stack_cache *cache, const struct deltaprof_site *site, unsigned depth)
{
    struct walk w;
    uintptr_t top = cache->own.hi;
    dp_reach_begin(&w.reach, &cache->own, site->sp);
    if (cache->own.hi != top)
        dp_stack_cache_clear(cache);
    /*
     * Set field by field: an initializer would clear the struct by one instruction that the next load would wait for.
     */
    w.pc = site->pc;
    w.sp = site->sp;
    w.fp = site->fp;
    w.value = 0;
    const struct dp_stack_cache_frame *first =
        cache->bar == cache->at ? &cache->pending[cache->n_barred] : &cache->frames[cache->bar];
    w.candidate = pass(cache, first, w.sp);
    w.link = 0;
    w.turns = 0;
    w.bare_end = 0;
    w.n = w.n_barred = 0;
    w.limit = depth;
    w.hash = 0;
    w.ended = false;
    w.tried = w.candidate->sp != w.sp || w.candidate->pc != w.pc;
    w.foreign = !on_own_stack(&w);
    uint32_t joined = UINT32_MAX;
    enum dp_walk_end end = run(&w, cache, w.tried ? advance(&w, cache) : AT_CANDIDATE, &joined);
    if (joined == UINT32_MAX) {
        dp_stack_cache_put(cache, cache->b, w.n, n_barred(&w), w.hash);
        cache->ended = w.ended;
        return end;
    }
    dp_stack_cache_put(cache, joined, w.n, n_barred(&w), w.hash);
    uint32_t n = dp_stack_cache_depth(cache);
    if (n > depth) /* the frame after the last one was not looked at */
        return dp_walk_strip(dp_stack_cache_return_address(cache, depth)) ? DP_WALK_CUT : DP_WALK_WHOLE;
    return cache->ended ? DP_WALK_WHOLE : run_on(&w, cache, depth - n);
}

enum dp_walk_end dp_walk_interrupted(struct dp_stack_cache *cache, const struct deltaprof_site *site, uintptr_t link,
                                     unsigned depth, uint32_t *n)
{
    struct walk w = {.pc = site->pc, .sp = site->sp, .fp = site->fp, .limit = depth};
    enum dp_walk_end end;
    uint32_t nowhere;
    dp_reach_begin(&w.reach, &cache->own, site->sp);
    w.foreign = !on_own_stack(&w);
    w.candidate = &cache->frames[cache->b]; /* above every stack */
    enter(&w, cache, dp_unwind_cache_interrupted(site->pc, cache->generation));
    w.link = link;
    if (step_from(&w, cache, &end))
        end = run(&w, cache, advance(&w, cache), &nowhere);
    *n = w.n;
    return end;
}
