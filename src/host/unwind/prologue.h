/* SPDX-License-Identifier: MIT */
/* host/unwind/prologue.h - finds a function's frame pointer by reading its first instructions. Context: hook. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * For a function that begins at `start` and has called a function, or entered the kernel, at pc: the number of bytes
 * from its stack pointer up to its frame pointer. end: of the mapping that has its code, no byte of which is read
 * without a check that it is readable. False: the code does not show it; on other processors than x86_64 always.
 */
bool dp_unwind_prologue_depth(uintptr_t start, uintptr_t pc, uintptr_t end, uintptr_t *depth_bytes);
