/* SPDX-License-Identifier: MIT */
/*
 * unwind/walk_hosted.h - the step from code that LuaJIT compiled (a trace) to the caller of LuaJIT's interpreter. Only
 * for walk.c.
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
#pragma once

#include "unwind/walk_step.h"

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
    if (dp_rule_kind(dp_unwind_cache_rule(value)) == DP_RULE_NONE || (*known != pc && !follows_call(pc)))
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
