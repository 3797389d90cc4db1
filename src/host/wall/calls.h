/* SPDX-License-Identifier: MIT */
/* host/wall/calls.h - the state of a thread that is off the processor, by the system call that it is in. */
#pragma once

#include "host/wall/threads.h"

/* number: of the system call; -1: the thread is in none, but in a page fault. arguments: the six of the call. */
enum dp_wall_state dp_wall_state_of_call(long number, const uint64_t *arguments);
