/* SPDX-License-Identifier: MIT */
/*
 * host/unwind/known_code.h - code whose unwind data are missing or wrong, and which is known by its instructions.
 * Context: hook. pc: a return address.
 */
#pragma once

#include "host/unwind/cfi.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether this is the code that returns from a signal handler, as every libc writes it. The kernel's signal frame lies
 * above its return address.
 */
bool dp_known_signal_return(uintptr_t pc);

/*
 * Whether this is glibc's __start_context, where the first function of a makecontext stack returns to. It is a return
 * address that no call left behind: the address before it belongs to no function, and no frame lies above. Only known
 * on x86_64.
 */
bool dp_known_context_start(uintptr_t pc);

/*
 * Whether LuaJIT's interpreter, which has this row, returns to this place when it leaves compiled code. It has put that
 * code's registers on the stack, but its unwind data say that nothing lies between sp and the interpreter's frame. Only
 * known on x86_64.
 */
bool dp_known_left_trace(const struct dp_cfi_row *row, uintptr_t pc);

/* Whether the instruction before a return address is a call. The address lies in a loaded file's code. */
bool dp_known_follows_call(uintptr_t pc);
