/* SPDX-License-Identifier: MIT */
/*
 * frames.h - frames that a runtime names, in the stacks of all profiles.
 *
 * A frame provider puts a runtime's own frames (function, file, line) into the stacks of all profiles. For each sample
 * the library walks the native stack and then calls the provider on the sampled thread. The provider pushes its frames,
 * the innermost first, and marks where they belong: an anchor is an address on the C stack inside the frame of the
 * native function that ran them, such as a local variable of the interpreter's loop. All frames pushed since the last
 * anchor take the place of that native frame. Frames whose anchor lies in no native frame are appended at the root end
 * and counted (`frames_apart`).
 *
 *     static void frames(void *ctx, struct deltaprof_frames *out)
 *     {
 *         for (struct call *c = current; c; c = c->caller) {
 *             deltaprof_frames_push(out, function_of(c), c->line);
 *             if (!c->caller || c->caller->loop != c->loop)
 *                 deltaprof_frames_anchor(out, c->loop);
 *         }
 *     }
 *
 * examples/interpreter.c is a whole one. Context of the provider: hook; it may not allocate, lock or call what does.
 */
#pragma once

#include <deltaprof/deltaprof.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A function as a runtime knows it. The texts are UTF-8, need no NUL, and are copied. */
struct deltaprof_function {
    const char *name, *file;
    uint32_t n_name, n_file; /* bytes; n_file 0: the file is not known */
    uint32_t first_line;     /* 0: not known */
};

/*
 * The id of a function, for the life of the process; the table grows when it is new. 0: no room (`memory`), or the
 * profiler was never started. Context: hook.
 */
DELTAPROF_API uint32_t deltaprof_function_find(const struct deltaprof_function *function);

/* Whether id is that function: cheaper than find, for a runtime that keeps ids and cannot know whether they still hold.
 */
DELTAPROF_API bool deltaprof_function_is(uint32_t id, const struct deltaprof_function *function);

/* What a provider fills; it belongs to the library. */
struct deltaprof_frames;

/* Adds a frame at line (0: not known) of a function; function 0 shows as [overflow]. False: there is no room for more,
 * what follows is not kept. */
DELTAPROF_API bool deltaprof_frames_push(struct deltaprof_frames *frames, uint32_t function, uint32_t line);

/* The frames pushed since the last anchor take the place of the native frame that anchor lies in. */
DELTAPROF_API void deltaprof_frames_anchor(struct deltaprof_frames *frames, const void *anchor);

/*
 * The same where no address inside that native frame is known: they take the place of the next native frame whose code
 * lies in [code, code + n_bytes). anchor is an address on the C stack, NULL if there is none: they are not looked for
 * beyond the native frame that it lies in, and take its place instead.
 */
DELTAPROF_API void deltaprof_frames_anchor_code(struct deltaprof_frames *frames, const void *code, size_t n_bytes,
                                                const void *anchor);

/*
 * The sample carries this label set (deltaprof_labels_swap) instead of the thread's: for a runtime that learns only
 * here which of its tasks runs. 0: the thread's own. A provider may call deltaprof_trace_set for the same reason.
 */
DELTAPROF_API void deltaprof_frames_labels(struct deltaprof_frames *frames, uint32_t set);

/* Whether the n_bytes at address lie on the stack that the thread runs on, and may be read. False too where it is not
 * known. */
DELTAPROF_API bool deltaprof_frames_on_stack(struct deltaprof_frames *frames, const void *address, size_t n_bytes);

/*
 * The number of native frames of the sampled stack whose code lies in [code, code + n_bytes): for a runtime that has to
 * search for what runs on this stack. -1: it is not known, because the walk was cut or followed frame pointers.
 */
DELTAPROF_API int deltaprof_frames_count_code(const struct deltaprof_frames *frames, const void *code, size_t n_bytes);

typedef void (*deltaprof_frames_fn)(void *ctx, struct deltaprof_frames *frames);

/*
 * Registers a provider for the life of the process, also across fork. 0; -EEXIST: it is registered; -ENOSPC: there are
 * four. Context: any thread, not a hook.
 */
DELTAPROF_API int deltaprof_frames_provide(deltaprof_frames_fn fn, void *ctx);

/*
 * The same for a provider that may also be called in a signal handler, at any instruction of the interrupted thread:
 * only then samples of CPU time have its frames. What the thread was just changing may be half written there, so the
 * provider asks deltaprof_frames_readable before it follows a pointer.
 */
DELTAPROF_API int deltaprof_frames_provide_anywhere(deltaprof_frames_fn fn, void *ctx);

/* Whether this sample interrupted the thread. Context: provider. */
DELTAPROF_API bool deltaprof_frames_interrupted(const struct deltaprof_frames *frames);

/*
 * Whether the n_bytes at address, at most 4,096, can be read. Always true in a sample that did not interrupt the
 * thread; else a system call for each page that this sample has not asked about. Context: provider.
 */
DELTAPROF_API bool deltaprof_frames_readable(struct deltaprof_frames *frames, const void *address, size_t n_bytes);

/*
 * The same for samples of wall time. There the provider is called for another thread of the process, which waits in the
 * kernel and may go on at any moment, or end. So the provider reads that thread's structures by deltaprof_frames_copy
 * only. If the thread has run meanwhile, the frames are not used. Calls come one after another, never in a hook.
 */
DELTAPROF_API int deltaprof_frames_provide_waiting(deltaprof_frames_fn fn, void *ctx);

/* The kernel's id of the thread that waits. Context: such a provider. */
DELTAPROF_API int deltaprof_frames_waiting_thread(const struct deltaprof_frames *frames);

/* Copies n_bytes at `from` to `to`. False: not all of them can be read. Context: such a provider. */
DELTAPROF_API bool deltaprof_frames_copy(struct deltaprof_frames *frames, void *to, const void *from, size_t n_bytes);

/* ---- generated code ---------------------------------------------------------------------------------------------- */

/*
 * The program gave libgcc unwind tables of code that it generated, or is about to withdraw them: eh_frame is the
 * argument of __register_frame and of __deregister_frame. Between the two, walks go through that code by its tables. At
 * most 4,096 functions are kept; the code of others is walked as code without tables. Context: any thread, not a hook.
 */
DELTAPROF_API void deltaprof_code_registered(const void *eh_frame);
DELTAPROF_API void deltaprof_code_withdrawn(const void *eh_frame);

#ifdef __cplusplus
}
#endif
