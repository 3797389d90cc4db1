/* SPDX-License-Identifier: MIT */
/*
 * waiting.c - the frame provider of CPython for threads that wait in the kernel: in time.sleep, in a read of a socket.
 *
 * frames.c reads the structures of the calling thread in place. Those of another thread may be freed at any moment,
 * because it may go on. So each structure is copied through the kernel, which fails where there is no memory, and the
 * caller drops the frames if the thread has run meanwhile. A thread that has not run has the frames that it had, and
 * its frames keep their code objects alive.
 *
 *     main interpreter -> thread state -> next ...      the one with the kernel's id of the thread
 *     thread state -> (cframe ->) frame -> previous ... as in frames.c
 *     frame -> code -> name, file, table of lines
 *
 * The kernel's id in a thread state is there from 3.11 on. It stands behind the pthread_t; no table of offsets is
 * needed to find it. Each id is looked for in the list once: a cache has its thread state, and each hit is checked. In
 * a forked child the interpreter may keep the id that the thread had in the parent, so its first thread is told by its
 * pthread_t. Threads of other interpreters than the main one have no Python frames here.
 *
 * Calls come one after another, so that the copies have fixed places.
 */
#include "python.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

enum {
    FIRST_MINOR = 11,
    OWNER_ENTRY = 3,
    STATE_BYTES = 256,
    CFRAME_BYTES = 24,
    FRAME_BYTES = 80,
    CODE_BYTES = 256,
    STR_BYTES = 96,
    STR_LENGTH = 16,
    STR_STATE = 32,
    TEXT_BYTES = 4096,
    LINES_BYTES = 16384,
    STATES_MAX = 1024,
    FRAMES_MAX = 4096,
    STATES_KNOWN = 256
};

static void *(*main_interpreter)(void);
static void *(*first_state_of)(void *interpreter);

static struct {
    int32_t tid;
    const char *state;
} known[STATES_KNOWN];

static uintptr_t first_of_child; /* in a forked child, the pthread_t of its first thread; else 0 */

/* Copies of what one frame needs. */
static struct {
    _Alignas(8) char code[CODE_BYTES], name[STR_BYTES + TEXT_BYTES], file[STR_BYTES + TEXT_BYTES], lines[LINES_BYTES];
} copies DP_LARGE;

static bool copy(struct deltaprof_frames *out, void *to, const char *from, size_t n_bytes)
{
    return dp_python_plausible(from) && deltaprof_frames_copy(out, to, from, n_bytes);
}

/* ---- thread states ---------------------------------------------------------------------------------------------- */

/* Whether a copied thread state is that of a thread: its kernel's id stands behind its pthread_t. */
static bool is_state_of(const char *state, int32_t tid)
{
    uintptr_t self = tid == (int32_t)getpid() ? first_of_child : 0;
    for (uint16_t at = 64; at + 16 <= STATE_BYTES; at += 8) {
        const char *pthread = dp_python_pointer(state, at);
        if (self ? (uintptr_t)pthread == self : dp_python_long(state, at + 8) == tid && dp_python_plausible(pthread))
            return true;
    }
    return false;
}

/* Copies the thread's state. False: it has none. */
static bool copy_state(struct deltaprof_frames *out, int32_t tid, char state[STATE_BYTES])
{
    enum { NEXT = 8 };
    unsigned hint = (uint32_t)tid % STATES_KNOWN;
    if (known[hint].tid == tid && copy(out, state, known[hint].state, STATE_BYTES) && is_state_of(state, tid))
        return true;
    void *interpreter = main_interpreter();
    const char *at = interpreter ? first_state_of(interpreter) : NULL;
    for (unsigned i = 0; i < STATES_MAX && copy(out, state, at, STATE_BYTES); i++) {
        if (is_state_of(state, tid)) {
            known[hint].tid = tid;
            known[hint].state = at;
            return true;
        }
        at = dp_python_pointer(state, NEXT);
    }
    return false;
}

/* ---- code objects ----------------------------------------------------------------------------------------------- */

/* Copies a string with its characters. */
static bool copy_str(struct deltaprof_frames *out, const char *str, char to[STR_BYTES + TEXT_BYTES])
{
    if (!copy(out, to, str, STR_BYTES) && !copy(out, to, str, dp_python.at.str_ascii))
        return false;
    int64_t length = dp_python_long(to, dp_python_field(STR_LENGTH));
    uint32_t kind = (uint32_t)dp_python_int(to, dp_python_field(STR_STATE)) >> 2 & 7;
    if (length < 0 || length > TEXT_BYTES || (kind != 1 && kind != 2 && kind != 4) || length * kind > TEXT_BYTES)
        return false;
    return copy(out, to, str, dp_python.at.str_compact + (size_t)length * kind) ||
           copy(out, to, str, dp_python.at.str_ascii + (size_t)length * kind);
}

static uint32_t function_of(struct deltaprof_frames *out, const char *code)
{
    char name[DP_PYTHON_TEXT], file[DP_PYTHON_TEXT];
    struct deltaprof_function f = {.name = "?", .n_name = 1, .file = ""};
    if (!copy_str(out, dp_python_pointer(copies.code, dp_python.at.code_name), copies.name) ||
        !dp_python_text(copies.name, name, &f.name, &f.n_name) || !f.n_name) {
        f.name = "?";
        f.n_name = 1;
    }
    if (copy_str(out, dp_python_pointer(copies.code, dp_python.at.code_file), copies.file))
        dp_python_text(copies.file, file, &f.file, &f.n_file);
    f.first_line = (uint32_t)dp_python_int(copies.code, dp_python.at.code_first_line);
    return dp_python_function(code, &f);
}

static uint32_t line_of(struct deltaprof_frames *out, size_t offset)
{
    const char *table = dp_python_pointer(copies.code, dp_python.at.code_lines);
    uint16_t head = dp_python_field(DP_PYTHON_BYTES_DATA);
    if (!copy(out, copies.lines, table, head) || !dp_python_is(copies.lines, dp_python.bytes_type))
        return 0;
    int64_t n_bytes = dp_python_long(copies.lines, dp_python_field(DP_PYTHON_BYTES_SIZE));
    if (n_bytes > LINES_BYTES)
        n_bytes = LINES_BYTES;
    if (n_bytes < 0 || !copy(out, copies.lines, table + head, (size_t)n_bytes))
        return 0;
    return dp_python_line_of((const uint8_t *)copies.lines, (size_t)n_bytes,
                             (uint32_t)dp_python_int(copies.code, dp_python.at.code_first_line), offset);
}

/* False: no room for more. */
static bool push(struct deltaprof_frames *out, const char *frame)
{
    enum { TAGS = 7 };
    const char *code = dp_python_pointer(frame, dp_python.at.frame_code);
    code -= (uintptr_t)code & TAGS;
    size_t offset;
    size_t n_bytes = dp_python.at.code_bytes;
    if (!copy(out, copies.code, code, n_bytes) || !dp_python_is(copies.code, dp_python.code_type) ||
        !dp_python_place_of(frame, copies.code, code, &offset))
        return true;
    uint32_t function = function_of(out, code);
    return deltaprof_frames_push(out, function, line_of(out, offset));
}

/* ---- frames ----------------------------------------------------------------------------------------------------- */

/* 3.11: a frame ends the run of its call of the interpreter's loop, whose anchor is the cframe. */
static void frames_by_cframe(struct deltaprof_frames *out, const char *cframe)
{
    _Alignas(8) char of_loop[CFRAME_BYTES], frame[FRAME_BYTES];
    if (!copy(out, of_loop, cframe, CFRAME_BYTES))
        return;
    const char *at = dp_python_pointer(of_loop, dp_python.at.cframe_frame);
    for (unsigned i = 0; i < FRAMES_MAX && copy(out, frame, at, FRAME_BYTES); i++) {
        bool room = push(out, frame);
        if (!room || frame[dp_python.at.frame_entry]) {
            bool there = cframe && deltaprof_frames_on_stack(out, cframe, CFRAME_BYTES);
            deltaprof_frames_anchor(out, there ? cframe : NULL);
            cframe = there ? dp_python_pointer(of_loop, dp_python.at.cframe_previous) : NULL;
            if (cframe && !copy(out, of_loop, cframe, CFRAME_BYTES))
                cframe = NULL;
        }
        if (!room)
            return;
        at = dp_python_pointer(frame, dp_python.at.frame_previous);
    }
}

/* 3.12 and later: an entry frame on the C stack ends a run, and is its anchor. */
static void frames_by_entry(struct deltaprof_frames *out, const char *at)
{
    _Alignas(8) char frame[FRAME_BYTES];
    bool room = true;
    for (unsigned i = 0; i < FRAMES_MAX && copy(out, frame, at, FRAME_BYTES); i++) {
        if (frame[dp_python.at.frame_owner] != OWNER_ENTRY) {
            room = room && push(out, frame);
        } else if (deltaprof_frames_on_stack(out, at, FRAME_BYTES)) {
            deltaprof_frames_anchor(out, at);
            if (!room)
                return;
        } else {
            return;
        }
        at = dp_python_pointer(frame, dp_python.at.frame_previous);
    }
}

static void frames_of_waiting(void *ctx, struct deltaprof_frames *out)
{
    _Alignas(8) char state[STATE_BYTES], of_loop[CFRAME_BYTES];
    (void)ctx;
    if (dp_python.finalizing() || !copy_state(out, deltaprof_frames_waiting_thread(out), state))
        return;
    const char *cframe = dp_python.at.tstate_cframe ? dp_python_pointer(state, dp_python.at.tstate_cframe) : NULL;
    if (dp_python.minor == FIRST_MINOR)
        frames_by_cframe(out, cframe);
    else if (!dp_python.at.tstate_cframe)
        frames_by_entry(out, dp_python_pointer(state, dp_python.at.tstate_frame));
    else if (copy(out, of_loop, cframe, CFRAME_BYTES))
        frames_by_entry(out, dp_python_pointer(of_loop, dp_python.at.cframe_frame));
}

static void note_child(void)
{
    first_of_child = (uintptr_t)pthread_self();
}

void dp_python_provide_waiting(void)
{
    main_interpreter = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyInterpreterState_Main");
    first_state_of = (void *(*)(void *))dlsym(RTLD_DEFAULT, "PyInterpreterState_ThreadHead");
    if (dp_python.minor >= FIRST_MINOR && main_interpreter && first_state_of && !pthread_atfork(NULL, NULL, note_child))
        deltaprof_frames_provide_waiting(frames_of_waiting, NULL);
}
