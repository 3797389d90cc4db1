/* SPDX-License-Identifier: MIT */
/*
 * hooks.h - functions that an interposer, or a runtime with its own allocator, calls for each event. The profiler's own
 * interposers use them too.
 *
 *     thread.h      the calling thread: countdown, guard, site of an event
 *     heap.h        blocks that are allocated and freed, mappings
 *     locks.h       waits for locks and futexes, and the holders that end them
 *     frames.h      frames that a runtime names
 *     interpose.h   for interposers of the C library: the gate, the process's life
 *
 * Context: everything here may be called from any thread and any hook, from signal handlers too, before and after
 * deltaprof_start, in a forked child. No function allocates, locks, logs or changes errno, unless its comment says so.
 * No function fails: losses are counted (deltaprof_get_stats).
 */
#pragma once

#include <deltaprof/frames.h>
#include <deltaprof/heap.h>
#include <deltaprof/interpose.h>
#include <deltaprof/locks.h>
#include <deltaprof/thread.h>
