/* SPDX-License-Identifier: MIT */
/* host/unwind/prologue.h - where a function's frame pointer is, read from its first instructions. Context: hook. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * For a function that begins at `start` and is in a call, or in a system call, at pc: how many bytes its frame pointer
 * lies above its stack pointer. False: its code does not tell. Code before `end` is readable or refused. Only on
 * x86_64.
 */
bool dp_unwind_prologue_depth(uintptr_t start, uintptr_t pc, uintptr_t end, uintptr_t *depth_bytes);
