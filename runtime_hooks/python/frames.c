/* SPDX-License-Identifier: MIT */
/*
 * frames.c - the frame provider of CPython: finds the Python functions on the calling thread's stack.
 *
 * It reads the interpreter's structures of the calling thread and calls two of its accessors, which only load words.
 * The thread itself is executing these frames, so they and their code objects stay alive and do not move.
 *
 * Each call of the interpreter's loop (_PyEval_EvalFrameDefault) runs one or more Python frames and keeps a structure
 * on the C stack: `cframe` up to 3.11, an entry frame that is no Python frame (owner == ENTRY) later. Its address is
 * the anchor of those Python frames. 3.9 keeps none: each call runs one frame, and the native frame is
 * recognized by its code.
 *
 *     3.9     tstate.frame -> back -> ...              one frame each, by the code of the loop
 *     3.10    tstate.frame -> back -> ...              one frame each:   tstate.cframe -> previous -> ...
 *     3.11    tstate.cframe.frame -> previous -> ...   `is_entry` ends a run
 *     3.12 on tstate(.cframe).frame -> previous -> ... an entry frame ends a run
 *
 * A sample of CPU time may come at any instruction. The thread may be entering a call of the loop then, whose pointer
 * to the frame is not written yet; so each object is read only if its memory can be read.
 *
 * All values that are read are checked: pointers are aligned, anchors lie on the stack, a code object has the type of
 * code objects, lengths are bounded. Frames that have not begun are left out, as in the interpreter's own tracebacks.
 * From the beginning of finalization on there are no Python frames.
 *
 * A code object's function is copied into deltaprof's table once; a cache by address has its id. Another code object
 * may have that address later, so each hit compares the texts. From 3.12 on a code object has a number that no other
 * one has: function and line are then known by the address, the number and the position, and no text is read.
 */
#include "python.h"

enum {
    OWNER_GENERATOR = 1,
    OWNER_ENTRY = 3,
    SKIPS_MAX = 16384,
    KNOWN = 4096,
    KNOWN_PLACES = 8192,
    FRAME_BYTES = 96,
    CODE_BYTES = 256
};

static DP_LARGE uint32_t known_functions[KNOWN]; /* cache by the address of a code object; each hit is checked */

uint32_t dp_python_function(const char *code, const struct deltaprof_function *f)
{
    uint32_t *known = &known_functions[((uintptr_t)code >> 4) * 0x9E3779B97F4A7C15u >> 52];
    uint32_t id = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (deltaprof_function_is(id, f))
        return id;
    id = deltaprof_function_find(f);
    __atomic_store_n(known, id, __ATOMIC_RELAXED);
    return id;
}

static uint32_t function_of(const char *code)
{
    char name[DP_PYTHON_TEXT], file[DP_PYTHON_TEXT];
    struct deltaprof_function f = {.name = "?", .n_name = 1, .file = ""};
    if (!dp_python_text(dp_python_pointer(code, dp_python.at.code_name), name, &f.name, &f.n_name) || !f.n_name) {
        f.name = "?";
        f.n_name = 1;
    }
    dp_python_text(dp_python_pointer(code, dp_python.at.code_file), file, &f.file, &f.n_file);
    f.first_line = (uint32_t)dp_python_int(code, dp_python.at.code_first_line);
    return dp_python_function(code, &f);
}

static uint32_t line_of(const char *code, size_t offset)
{
    enum { TABLE_MAX = 1 << 24 };
    const char *table = dp_python_pointer(code, dp_python.at.code_lines);
    if (!dp_python_is(table, dp_python.bytes_type))
        return 0;
    int64_t n_bytes = dp_python_long(table, dp_python_field(DP_PYTHON_BYTES_SIZE));
    if (n_bytes < 0 || n_bytes > TABLE_MAX)
        return 0;
    return dp_python_line_of((const uint8_t *)table + dp_python_field(DP_PYTHON_BYTES_DATA), (size_t)n_bytes,
                             (uint32_t)dp_python_int(code, dp_python.at.code_first_line), offset);
}

bool dp_python_place_of(const char *frame, const char *fields, const char *code, size_t *offset)
{
    if (dp_python.minor < 11) {
        int32_t at = dp_python_int(frame, dp_python.at.frame_instruction);
        *offset = at < 0 ? 0 : (size_t)at * (dp_python.minor < 10 ? 1 : 2);
        return true;
    }
    intptr_t at = dp_python_pointer(frame, dp_python.at.frame_instruction) - (code + dp_python.at.code_bytes);
    if (frame[dp_python.at.frame_owner] != OWNER_GENERATOR &&
        at < 2 * dp_python_int(fields, dp_python.at.code_traceable))
        return false;
    *offset = at < 0 ? 0 : (size_t)at;
    return true;
}

/*
 * What a code object with a number executes at a position. The check is a hash of these and of the entry itself: an
 * entry that two threads write at once fails it.
 */
static struct known_place {
    uint64_t check;
    uint32_t function, line;
} known_places[KNOWN_PLACES] DP_LARGE;

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)(a ^ 0x9E3779B97F4A7C15u) * (b ^ 0xD6E8FEB86659FD93u);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t check_of(uint64_t key, uint32_t function, uint32_t line)
{
    return mix(key, (uint64_t)function << 32 | line);
}

static bool push_known(struct deltaprof_frames *out, const char *code, size_t offset)
{
    uint32_t version = dp_python.at.code_version ? (uint32_t)dp_python_int(code, dp_python.at.code_version) : 0;
    if (!version)
        return deltaprof_frames_push(out, function_of(code), line_of(code, offset));
    uint64_t key = mix((uintptr_t)code, (uint64_t)version << 32 | (uint32_t)offset);
    struct known_place *known = &known_places[key % KNOWN_PLACES];
    uint32_t function = __atomic_load_n(&known->function, __ATOMIC_RELAXED);
    uint32_t line = __atomic_load_n(&known->line, __ATOMIC_RELAXED);
    if (!function || __atomic_load_n(&known->check, __ATOMIC_RELAXED) != check_of(key, function, line)) {
        function = function_of(code);
        line = line_of(code, offset);
        __atomic_store_n(&known->check, check_of(key, function, line), __ATOMIC_RELAXED);
        __atomic_store_n(&known->function, function, __ATOMIC_RELAXED);
        __atomic_store_n(&known->line, line, __ATOMIC_RELAXED);
    }
    return deltaprof_frames_push(out, function, line);
}

/* Whether an object can be read. In a signal handler a pointer may be one that was not written yet. */
static bool is_readable(struct deltaprof_frames *out, const char *object, size_t n_bytes)
{
    return dp_python_plausible(object) && deltaprof_frames_readable(out, object, n_bytes);
}

/* False: no room for more. */
static bool push(struct deltaprof_frames *out, const char *frame)
{
    enum { TAGS = 7 }; /* 3.14: low bits of a reference; of a pointer they are 0 */
    const char *code = dp_python_pointer(frame, dp_python.at.frame_code);
    code -= (uintptr_t)code & TAGS;
    size_t offset;
    if (!is_readable(out, code, CODE_BYTES) || !dp_python_is(code, dp_python.code_type) ||
        !dp_python_place_of(frame, code, code, &offset))
        return true;
    return push_known(out, code, offset);
}

static void frames_by_loop(struct deltaprof_frames *out, const char *tstate)
{
    const char *frame = dp_python_pointer(tstate, dp_python.at.tstate_frame);
    size_t n_bytes = dp_python.loop.end - dp_python.loop.start;
    for (bool room = true; room && is_readable(out, frame, FRAME_BYTES);) {
        room = push(out, frame);
        deltaprof_frames_anchor_code(out, (const void *)dp_python.loop.start, n_bytes, NULL);
        frame = dp_python_pointer(frame, dp_python.at.frame_previous);
    }
}

/* The anchor of a `cframe`, and the cframe of the caller. The outermost one is part of the thread state. */
static const char *anchor_cframe(struct deltaprof_frames *out, const char *cframe)
{
    bool there = deltaprof_frames_on_stack(out, cframe, 24);
    deltaprof_frames_anchor(out, there ? cframe : NULL);
    return there ? dp_python_pointer(cframe, dp_python.at.cframe_previous) : NULL;
}

static void frames_by_cframe(struct deltaprof_frames *out, const char *tstate)
{
    const char *cframe = dp_python_pointer(tstate, dp_python.at.tstate_cframe);
    if (!dp_python_plausible(cframe))
        return;
    const char *frame = dp_python.minor < 11 ? dp_python_pointer(tstate, dp_python.at.tstate_frame)
                                             : dp_python_pointer(cframe, dp_python.at.cframe_frame);
    while (is_readable(out, frame, FRAME_BYTES)) {
        bool room = push(out, frame);
        if (!room || dp_python.minor < 11 || frame[dp_python.at.frame_entry])
            cframe = anchor_cframe(out, cframe);
        if (!room)
            return;
        frame = dp_python_pointer(frame, dp_python.at.frame_previous);
    }
}

static const char *innermost_of(const char *tstate)
{
    if (!dp_python.at.tstate_cframe)
        return dp_python_pointer(tstate, dp_python.at.tstate_frame);
    const char *cframe = dp_python_pointer(tstate, dp_python.at.tstate_cframe);
    return dp_python_plausible(cframe) ? dp_python_pointer(cframe, dp_python.at.cframe_frame) : NULL;
}

const char *dp_python_innermost(void)
{
    const char *tstate = dp_python.finalizing() ? NULL : dp_python.this_thread();
    return tstate ? innermost_of(tstate) : NULL;
}

static void frames_by_entry(struct deltaprof_frames *out, const char *tstate)
{
    const char *frame = innermost_of(tstate);
    bool room = true;
    for (int skips = 0; is_readable(out, frame, FRAME_BYTES) && skips < SKIPS_MAX; skips += !room) {
        if (frame[dp_python.at.frame_owner] != OWNER_ENTRY) {
            room = room && push(out, frame);
        } else if (deltaprof_frames_on_stack(out, frame, 80)) {
            deltaprof_frames_anchor(out, frame);
            if (!room)
                return;
        } else {
            return;
        }
        frame = dp_python_pointer(frame, dp_python.at.frame_previous);
    }
}

void dp_python_frames(void *ctx, struct deltaprof_frames *out)
{
    if (dp_python.finalizing())
        return;
    const char *tstate = dp_python.this_thread();
    if (!tstate)
        return;
    if (!deltaprof_frames_interrupted(out)) { /* context variables may just be changing there */
        deltaprof_frames_labels(out, dp_python_labels_of(tstate));
        dp_python_trace_of(tstate);
    }
    if (dp_python.minor >= 12)
        frames_by_entry(out, tstate);
    else if (dp_python.minor >= 10)
        frames_by_cframe(out, tstate);
    else
        frames_by_loop(out, tstate);
}
