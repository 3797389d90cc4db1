/* SPDX-License-Identifier: MIT */
/*
 * sink/sweep.h - deletes what processes that have ended left in a directory of profiles, beyond what is to be kept.
 */
#pragma once

#include "pprof/stamp.h"

#include <stdint.h>
#include <sys/types.h>

/*
 * Deletes temporary files of processes that were killed, and, while the directory holds more than `keep` ticks (0: any
 * number), the oldest ticks of processes that have ended, a few hundred at most. Only files whose stamp says that they
 * come from this pid namespace and boot: there a process id tells whether the process has ended. self, pid: of the
 * calling process, whose own ticks count but stay. Context: as sink/file.h.
 */
void dp_sweep(int dir_fd, const struct dp_stamp *self, pid_t pid, int64_t keep);
