/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/provided.c - replaces native frames by the frames of runtimes that they execute.
 *
 * A provider gives runs of frames, the innermost first, and for each run an anchor: an address on the C stack. A native
 * frame i covers [sp of i, sp of i + 1); the outermost frame has no known end and covers nothing. Both sequences lead
 * from the leaf to the root, so one pass joins them:
 *
 *     native frame   covers          runs                        result
 *     malloc's user  0x100..0x140    -                           its native frame
 *     eval loop      0x140..0x200    anchor 0x180: g, f          g, f
 *     main           0x200..         -                           main
 *
 * A run may name the code of its native frame instead: then it takes the place of the next frame of that code, or of
 * the frame that its anchor lies in, if that comes first.
 *
 * A run whose anchor no native frame covers (the walk was cut, or the frames are of another stack) keeps its order: it
 * is appended at the root end and its frames are counted. A run without frames leaves its native frame as it is.
 *
 * The stack cache holds native frames only. A runtime's line changes while the native stack stays the same, so
 * providers are asked for each sample, and a merged stack has no `known` record.
 *
 * Memory: this uses the stack cache's staging area, which is free between two walks.
 */
#include "host/unwind/provided.h"

#include "base/mem.h"
#include "base/stats.h"
#include "host/objects/functions.h"

#include <deltaprof/frames.h>
#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PROVIDERS_MAX = 4, PAGES_KNOWN = 8 };

struct providers {
    struct {
        deltaprof_frames_fn _Atomic fn; /* [PROVIDER]: ctx is written before it */
        void *ctx;
        bool anywhere; /* it may be called in a signal handler, at any instruction */
    } at[PROVIDERS_MAX];
    _Atomic uint32_t n_claimed;
};
static struct providers usual, of_waiting;
_Atomic bool dp_provided_exist, dp_provided_exist_waiting;

struct run {
    uintptr_t anchor; /* 0: none was given */
    uint32_t end;     /* of its frames; they begin where the last run ends */
    uint32_t code;    /* 1 + its index in `codes`; 0: only the anchor tells its native frame */
};

enum { CODES_MAX = PROVIDERS_MAX };

struct deltaprof_frames {
    struct dp_reach reach;
    const struct dp_native_stack *native;
    dp_frame_id *ids;
    struct run *runs;
    struct code {
        uintptr_t start;
        size_t n_bytes;
    } codes[CODES_MAX];
    uint32_t n_codes, n_ids, n_runs, depth, labels;
    uint32_t n_pages;
    uintptr_t pages[PAGES_KNOWN]; /* that can be read; 0: none */
    bool full;
};

/* The staging area holds depth + 1 of its frames: 32 bytes each, of which this takes 28. */
struct scratch {
    uintptr_t *sps;
    struct run *runs;
    dp_frame_id *merged;
};
_Static_assert(sizeof(struct dp_stack_cache_frame) >= sizeof(uintptr_t) + sizeof(struct run) + sizeof(dp_frame_id),
               "the staging area is large enough");

static struct scratch scratch_of(struct dp_stack_cache *cache, unsigned depth)
{
    struct scratch s = {.sps = (uintptr_t *)cache->stage};
    s.runs = (struct run *)(s.sps + depth + 1);
    s.merged = (dp_frame_id *)(s.runs + depth + 1);
    return s;
}

uintptr_t *dp_provided_sps(struct dp_stack_cache *cache, unsigned depth)
{
    return scratch_of(cache, depth).sps;
}

/* ---- providers -------------------------------------------------------------------------------------------------- */

static int provide(struct providers *to, deltaprof_frames_fn fn, void *ctx, bool anywhere)
{
    for (uint32_t i = 0; i < PROVIDERS_MAX; i++)
        if (dp_load_acquire(&to->at[i].fn) == fn && to->at[i].ctx == ctx) /* [PROVIDER] */
            return -EEXIST;
    uint32_t i = dp_load_relaxed(&to->n_claimed);
    do {
        if (i == PROVIDERS_MAX)
            return -ENOSPC;
    } while (!dp_cas_relaxed(&to->n_claimed, &i, i + 1));
    to->at[i].ctx = ctx;
    to->at[i].anywhere = anywhere;
    dp_store_release(&to->at[i].fn, fn); /* [PROVIDER] else a walk could call it with another's ctx */
    dp_store_relaxed(to == &usual ? &dp_provided_exist : &dp_provided_exist_waiting, true);
    return 0;
}

int deltaprof_frames_provide(deltaprof_frames_fn fn, void *ctx)
{
    return provide(&usual, fn, ctx, false);
}

int deltaprof_frames_provide_anywhere(deltaprof_frames_fn fn, void *ctx)
{
    return provide(&usual, fn, ctx, true);
}

int deltaprof_frames_provide_waiting(deltaprof_frames_fn fn, void *ctx)
{
    return provide(&of_waiting, fn, ctx, false);
}

int deltaprof_frames_waiting_thread(const struct deltaprof_frames *frames)
{
    return frames->native->waiting;
}

bool deltaprof_frames_copy(struct deltaprof_frames *frames, void *to, const void *from, size_t n_bytes)
{
    (void)frames;
    int saved = errno;
    struct iovec local = {to, n_bytes}, remote = {(void *)(uintptr_t)from, n_bytes};
    long n = syscall(SYS_process_vm_readv, getpid(), &local, 1UL, &remote, 1UL, 0UL);
    errno = saved;
    return n >= 0 && (size_t)n == n_bytes;
}

bool deltaprof_frames_push(struct deltaprof_frames *frames, uint32_t function, uint32_t line)
{
    if (frames->n_ids == frames->depth) {
        frames->full = true;
        return false;
    }
    dp_frame_id id = function ? dp_frame_intern_named(dp_function_frame(function, line)) : 0;
    if (!id)
        dp_stats_add(DP_STAT_FRAMES_FULL, 1);
    frames->ids[frames->n_ids++] = id ? id : DP_FRAME_OVERFLOW;
    return true;
}

static void end_run(struct deltaprof_frames *frames, const void *anchor, uint32_t code)
{
    if (frames->n_runs < frames->depth)
        frames->runs[frames->n_runs++] = (struct run){(uintptr_t)anchor, frames->n_ids, code};
}

void deltaprof_frames_anchor(struct deltaprof_frames *frames, const void *anchor)
{
    end_run(frames, anchor, 0);
}

void deltaprof_frames_anchor_code(struct deltaprof_frames *frames, const void *code, size_t n_bytes, const void *anchor)
{
    const struct code range = {(uintptr_t)code, n_bytes};
    uint32_t i = 0;
    while (i < frames->n_codes && (frames->codes[i].start != range.start || frames->codes[i].n_bytes != n_bytes))
        i++;
    if (i == frames->n_codes && i < CODES_MAX)
        frames->codes[frames->n_codes++] = range;
    end_run(frames, anchor, i < CODES_MAX ? i + 1 : 0);
}

void deltaprof_frames_labels(struct deltaprof_frames *frames, uint32_t set)
{
    frames->labels = set;
}

bool deltaprof_frames_on_stack(struct deltaprof_frames *frames, const void *address, size_t n_bytes)
{
    uintptr_t first = (uintptr_t)address & ~(uintptr_t)7, last = ((uintptr_t)address + n_bytes - 1) & ~(uintptr_t)7;
    const struct dp_native_stack *native = frames->native;
    if (native->waiting) /* where its stack ends is not known, but the walk came as far as its outermost frame */
        return native->depth && first >= native->sps[0] && last < native->sps[native->depth - 1] + DP_PAGE_LEAST;
    return n_bytes && n_bytes < DP_PAGE_LEAST && last >= first && first > DP_PAGE_LEAST &&
           dp_reach_word(&frames->reach, first) && dp_reach_word(&frames->reach, last);
}

bool deltaprof_frames_interrupted(const struct deltaprof_frames *frames)
{
    return frames->native->interrupted;
}

static bool is_page_readable(struct deltaprof_frames *frames, uintptr_t page)
{
    for (unsigned i = 0; i < PAGES_KNOWN; i++)
        if (frames->pages[i] == page)
            return page != 0;
    if (!dp_reach_probe(page))
        return false;
    frames->pages[frames->n_pages++ % PAGES_KNOWN] = page;
    return true;
}

bool deltaprof_frames_readable(struct deltaprof_frames *frames, const void *address, size_t n_bytes)
{
    const uintptr_t mask = ~(uintptr_t)(DP_PAGE_LEAST - 1);
    if (!frames->native->interrupted)
        return true;
    return n_bytes && n_bytes <= DP_PAGE_LEAST && is_page_readable(frames, (uintptr_t)address & mask) &&
           is_page_readable(frames, ((uintptr_t)address + n_bytes - 1) & mask);
}

/* Whether a native frame is one of this code. */
static bool is_of(dp_frame_id native, const struct code *code)
{
    if (native < DP_FRAME_FIRST_REAL)
        return false;
    const struct dp_frame *frame = dp_frame_get(native);
    return frame->type == DP_FRAME_CODE && frame->pc - code->start < code->n_bytes;
}

int deltaprof_frames_count_code(const struct deltaprof_frames *frames, const void *code, size_t n_bytes)
{
    const struct code range = {(uintptr_t)code, n_bytes};
    int n = 0;
    if (frames->native->cut || frames->native->guessed)
        return -1;
    for (uint32_t i = 0; i < frames->native->depth; i++)
        n += is_of(frames->native->ids[i], &range);
    return n;
}

/* ---- merging ---------------------------------------------------------------------------------------------------- */

struct merge {
    const struct deltaprof_frames *from;
    dp_frame_id *out;
    uint32_t n, depth, run; /* run: the next one */
    bool cut;
};

static void append(struct merge *m, dp_frame_id id)
{
    if (m->n < m->depth)
        m->out[m->n++] = id;
    else
        m->cut = true;
}

/* Appends the frames of the next run; returns their number. */
static uint32_t put_run(struct merge *m)
{
    uint32_t at = m->run ? m->from->runs[m->run - 1].end : 0, end = m->from->runs[m->run++].end;
    for (uint32_t i = at; i < end; i++)
        append(m, m->from->ids[i]);
    return end - at;
}

static uintptr_t sp_of(const struct dp_stack_cache *cache, const struct dp_native_stack *native, uint32_t i)
{
    if (native->sps)
        return native->sps[i];
    return i < cache->n_pending ? cache->pending[i].sp : cache->frames[cache->at + i - cache->n_pending].sp;
}

/* Whether the native frame is one of the code that the next run names. */
static bool runs_next(const struct merge *m, dp_frame_id native)
{
    uint32_t i = m->run < m->from->n_runs ? m->from->runs[m->run].code : 0;
    return i && is_of(native, &m->from->codes[i - 1]);
}

static void ask(struct deltaprof_frames *frames)
{
    struct providers *providers = frames->native->waiting ? &of_waiting : &usual;
    for (uint32_t i = 0; i < PROVIDERS_MAX; i++) {
        deltaprof_frames_fn fn = dp_load_acquire(&providers->at[i].fn); /* [PROVIDER] */
        if (!fn || (frames->native->interrupted && !providers->at[i].anywhere))
            continue;
        fn(providers->at[i].ctx, frames);
        uint32_t end = frames->n_runs ? frames->runs[frames->n_runs - 1].end : 0;
        if (frames->n_ids > end)
            deltaprof_frames_anchor(frames, NULL);
    }
}

bool dp_provided_merge(struct dp_stack_cache *cache, const struct dp_native_stack *native, uintptr_t sp, unsigned depth,
                       struct dp_stack *out)
{
    struct scratch scratch = scratch_of(cache, depth);
    struct deltaprof_frames frames = {.native = native, .ids = cache->stage_ids, .runs = scratch.runs, .depth = depth};
    if (!native->waiting)
        dp_reach_begin(&frames.reach, &cache->own, sp);
    ask(&frames);
    out->labels = frames.labels;
    if (!frames.n_ids)
        return false;
    struct merge m = {.from = &frames, .out = scratch.merged, .depth = depth, .cut = native->cut || frames.full};
    for (uint32_t i = 0; i < native->depth; i++) {
        uintptr_t lo = sp_of(cache, native, i), hi = i + 1 < native->depth ? sp_of(cache, native, i + 1) : lo;
        uint32_t n = runs_next(&m, native->ids[i]) ? put_run(&m) : 0;
        while (m.run < frames.n_runs && hi > lo && frames.runs[m.run].anchor - lo < hi - lo)
            n += put_run(&m);
        if (!n)
            append(&m, native->ids[i]);
    }
    uint32_t n_apart = 0;
    while (m.run < frames.n_runs)
        n_apart += put_run(&m);
    if (n_apart && !native->cut)
        dp_stats_add_of(DP_STAT_FRAMES_APART, native->kind, n_apart);
    *out = (struct dp_stack){
        .hash = dp_stack_hash(m.out, m.n), .depth = m.n, .cut = m.cut, .frames = m.out, .labels = frames.labels};
    return true;
}
