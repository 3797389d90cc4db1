/* SPDX-License-Identifier: MIT */
/*
 * host/report/recorded.h - keeps for how long events of each kind were not recorded, because the profiler or the kind
 * was off. The duration of a profile leaves that time out, so that averages are over the time that was profiled.
 * Context: any thread, not a hook.
 */
#pragma once

#include <stdint.h>

/* From now on these kinds are recorded, a bit for each, and no other. Before the first call all are. */
void dp_report_recorded_tune(uint32_t kinds);
/* A request for the next N seconds began (by = 1) or ended (-1), in which the kind is recorded in any case. */
void dp_report_recorded_window(unsigned kind, int by);

/* From the start or the fork until mono_ns, which is after the last change, the time in which it was not recorded. */
int64_t dp_report_recorded_off_ns(unsigned kind, int64_t mono_ns);

/* In a process that has copied the tables of another one: the number in their header. */
void dp_report_recorded_adopt(unsigned kind, int64_t off);
/* In a forked child, whose first window begins at now_ns: the time counts from then on, and no request is under way. */
void dp_report_recorded_fork_child(int64_t now_ns);
