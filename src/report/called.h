/* SPDX-License-Identifier: MIT */
/*
 * report/called.h - the function that a frame called, read from its call instruction.
 *
 * A function that ends with a call often jumps there instead, and has no frame then: the last thing that holds_lock
 * does is to unlock. But the instruction before the return address still names it.
 */
#pragma once

#include "objects/frames.h"

/*
 * A frame at the start of the function that a frame of code called directly; 0: not known (a call through a pointer,
 * code that is gone). Context: report; async-signal-safe.
 */
dp_frame_id dp_called_by(dp_frame_id frame);

/* The interposer's hooks lie in the object at this address. Context: init. */
void dp_called_hooks_at(uintptr_t address);

/*
 * The frame that is missing below the leaf of a stack that a hook captured, at the start of the function that the leaf
 * called and that came to the hook by a jump. 0: the leaf called the hook itself, or it is not known. Each leaf is
 * looked at once. Context: report; async-signal-safe.
 */
dp_frame_id dp_called_tail(dp_frame_id leaf);
