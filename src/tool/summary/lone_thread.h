/* SPDX-License-Identifier: MIT */
/*
 * tool/summary/lone_thread.h - tells whether the only thread of a process waits for ever. A process with one thread
 * writes its profiles in that thread, so while it is blocked only another process can tell.
 */
#pragma once

#include "tool/summary/sentences.h"

#include <sys/types.h>

/* Adds a sentence if the process has one thread, and that waits for what cannot happen any more. */
void dp_summary_lone_thread(struct dp_summary_sentences *, pid_t pid);
