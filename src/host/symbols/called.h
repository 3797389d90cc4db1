/* SPDX-License-Identifier: MIT */
/*
 * host/symbols/called.h - the function that a frame called, read from its call instruction.
 *
 * If the last action of a function is a call, the compiler often makes it a jump (a tail call), and the function has no
 * frame. For example, holds_lock, which ends with the unlock, is missing in the stack of the unlock. But the call
 * instruction in its caller, before the return address, still names it.
 */
#pragma once

#include "host/objects/frames.h"

/*
 * Returns a frame at the start of the function that the given frame called directly; 0: not known (a call through a
 * pointer, code that was unloaded). Context: report; async-signal-safe.
 */
dp_frame_id dp_symbols_called_by(dp_frame_id frame);

/* Tells where the hooks are: in the object at this address. Context: init. */
void dp_symbols_called_hooks_at(uintptr_t address);

/* Finds the hooks' object, so that processes forked later need not. Context: any thread; async-signal-safe. */
void dp_symbols_called_learn(void);

/*
 * For a stack that a hook captured: returns the frame that is missing below the leaf, if the leaf called a function
 * that jumped to the hook. The frame is at the start of that function. 0: the leaf called the hook itself, or it is not
 * known. The result of each leaf is kept. Context: report; async-signal-safe.
 */
dp_frame_id dp_symbols_called_tail(dp_frame_id leaf);
