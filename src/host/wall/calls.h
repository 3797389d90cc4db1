/* SPDX-License-Identifier: MIT */
/* host/wall/calls.h - what a thread waits for that is inside a system call. */
#pragma once

#include "host/wall/threads.h"

/* number: of the system call, -1: none, the thread waits in a page fault. arguments: its six. */
enum dp_wall_state dp_wall_state_of_call(long number, const uint64_t *arguments);
