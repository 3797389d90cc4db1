/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/unwind.h - captures the calling thread's stack as frame ids, without a lock, an allocation or the loader.
 *
 * Context of walk: hook, with the thread's countdown guarded. A walk reads only mapped memory. At a frame that it
 * cannot step from it ends: it keeps the frames so far and counts the stack as cut.
 */
#pragma once

#include "config/config.h"
#include "host/unwind/stack.h"

#include <stdbool.h>

struct deltaprof_site;

/* depth: the largest number of frames kept. budget_bytes: of dp_mem, for rules. Context: init. */
int dp_unwind_init(enum dp_unwind_mode mode, unsigned depth, size_t budget_bytes);

/*
 * Bytes of scratch memory for walks. Each thread passes the same memory to all its walks, zeroed before the first.
 * After init.
 */
size_t dp_unwind_scratch_bytes(void);

/*
 * Fills stack with the calling thread's frames from site rootward; at least one frame (perhaps synthetic). scratch: the
 * calling thread's, at least dp_unwind_scratch_bytes; NULL: only the leaf is kept. Frames of runtimes stand in it where
 * their providers put them. kind: a cut of the stack is counted for it, here and in
 * the other walks.
 */
void dp_unwind_walk(unsigned kind, void *scratch, const struct deltaprof_site *site, struct dp_stack *stack);

/* A place where a signal interrupted the calling thread. */
struct dp_interrupted {
    uintptr_t pc, sp, fp;
    uintptr_t link; /* aarch64: the link register; else 0 */
};

/*
 * Fills stack with the frames from that place rootward. The leaf is its function's beginning. Only rules are used,
 * never libunwind: it takes locks that the interrupted code may hold. scratch: zeroed at first; no other walk uses it
 * meanwhile. So what the thread remembers of its own walks stays as it is. is_same: the last walk in this scratch was
 * one of this thread. Context: a signal handler.
 */
void dp_unwind_walk_interrupted(unsigned kind, void *scratch, bool is_same, const struct dp_interrupted *at,
                                struct dp_stack *stack);

/* A place where another thread of the process waits in a system call or a page fault. */
struct dp_sibling {
    int32_t tid;
    uintptr_t pc, sp;
    bool (*is_there)(void *ctx); /* whether the thread has not run since that place was read */
    void *ctx;
};

/*
 * Fills stack with the frames of another thread from that place rootward, by rules only; its stack is read through the
 * kernel. frames: room for the `depth` of dp_unwind_init. The leaf is its function's beginning. scratch: memory of
 * dp_unwind_scratch_bytes, zeroed at first, where frames of runtimes are put in; NULL: they are left out. False: the
 * thread ran meanwhile, or not even the leaf is known. Context: not a hook.
 */
bool dp_unwind_walk_sibling(unsigned kind, const struct dp_sibling *, void *scratch, dp_frame_id *frames,
                            struct dp_stack *stack);
/* Whether a runtime has frames for such stacks. */
bool dp_unwind_sibling_wants_scratch(void);
/* The most frames that it finds. */
unsigned dp_unwind_depth(void);

/*
 * Whether libunwind is needed and not loaded yet. It is needed with unwind=libunwind, or after a frame that no rule
 * describes.
 */
bool dp_unwind_wants_module(void);
/*
 * Loads libunwind. Context: outside hooks, where dlopen may be called. Returns 0 or -errno; the caller logs it
 * once.
 */
int dp_unwind_load_module(void);

/*
 * prepare keeps new walks out of libunwind and waits until none is inside; the other two let walks in again. Context:
 * fork handlers.
 */
void dp_unwind_fork_prepare(const void *scratch);
void dp_unwind_fork_parent(void);
void dp_unwind_fork_child(const void *scratch);
