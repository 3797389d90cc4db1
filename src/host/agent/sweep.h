/* SPDX-License-Identifier: MIT */
/* host/agent/sweep.h - deletes files of ended processes from a directory of profiles, beyond the number to keep. */
#pragma once

#include "pprof/stamp.h"

#include <stdint.h>
#include <sys/types.h>

/*
 * Deletes temporary files of processes that were killed, and, while the directory holds more than `keep` ticks (0: any
 * number), the oldest ticks of processes that have ended, a few hundred at most. It deletes only files with a stamp of
 * this pid namespace and boot, because only there a process id tells whether the process has ended. self, pid: of the
 * calling process; its own ticks count but are not deleted. Context: as host/agent/profile_file.h.
 */
void dp_agent_sweep(int dir_fd, const struct dp_stamp *self, pid_t pid, int64_t keep);
